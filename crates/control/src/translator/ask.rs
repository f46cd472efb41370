// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client side of the control socket.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{interface, Answer, Request, Status, LONG_PATIENCE};
use crate::error::ControlError;
use crate::varlink::{Call, Caller, Client, Refusal, Unanswered, PATIENCE};
use diolkos_service::instance::{self, FoundInstance, Running};

/// Sends a request to the program that runs for a device.
pub fn ask(device: &str, request: Request) -> Result<Answer, ControlError> {
    ask_this(&find(device)?, device, request)
}

/// The failure for a reply that does not fit the request, perhaps from a program of another version.
pub fn unexpected(answer: &Answer) -> ControlError {
    ControlError::Unexpected(format!("{answer:?}"))
}

/// The control socket of the program that runs for a device.
pub fn socket(device: &str) -> Result<PathBuf, ControlError> {
    Ok(find(device)?.socket)
}

fn find(device: &str) -> Result<Running, ControlError> {
    match instance::find(device) {
        FoundInstance::At(running) => Ok(running),
        FoundInstance::Nowhere => Err(ControlError::Nobody(device.to_owned())),
        FoundInstance::Ignored(why) => Err(ControlError::Ignored {
            device: device.to_owned(),
            why,
        }),
        FoundInstance::Closed => Err(ControlError::Closed),
    }
}

/// Sends a request to this program, and to no other one that may have taken its place.
pub fn ask_this(running: &Running, device: &str, request: Request) -> Result<Answer, ControlError> {
    let patience = match request {
        Request::Reload | Request::Roll { .. } | Request::Sessions(_) | Request::Bindings(_) => {
            LONG_PATIENCE
        }
        // The program replies only after the change has been written.
        Request::Bind(_) | Request::Unbind { .. } | Request::EndSession { .. } => LONG_PATIENCE,
        _ => PATIENCE,
    };
    let mut first = Vec::new();
    let call = interface::call(request);
    let answered = connect(running)
        .map_err(Unanswered::Failed)
        .and_then(|mut client| {
            client.call(&call, Some(patience), |part| {
                first.push(part);
                true
            })
        });
    let answer = match answered {
        Ok(last) => interface::answer(request, first, last).map_err(io::Error::from),
        Err(Unanswered::Refused(refusal)) => Ok(interface::refusal(&refusal)),
        Err(Unanswered::Failed(error)) => Err(error),
    };
    match answer {
        Ok(Answer::Failed(why) | Answer::NotSupported(why)) => Err(ControlError::Failed(why)),
        Ok(Answer::Misconfigured(why)) => Err(ControlError::Misconfigured(why)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(ControlError::unanswered(device, error)),
    }
}

/// The status of the program that runs for a device.
pub fn status(device: &str) -> Result<Status, ControlError> {
    let reply = watch(device, false, |_| true)?;
    interface::status(reply).map_err(|error| ControlError::unanswered(device, error.into()))
}

/// Reports the status of the program, and reports it again at each change, until the program ends or `each` returns false.
pub fn follow(device: &str, mut each: impl FnMut(Status) -> bool) -> Result<(), ControlError> {
    let told = |reply| interface::status(reply).is_ok_and(&mut each);
    watch(device, true, told).map(|_| ())
}

fn watch(
    device: &str,
    follow: bool,
    each: impl FnMut(Value) -> bool,
) -> Result<Value, ControlError> {
    let call = interface::call_for_status(follow);
    let patience = Some(PATIENCE).filter(|_| !follow);
    call_at(device, &call, patience, each)?.map_err(|e| ControlError::Failed(e.reason()))
}

/// Calls a method of the program with this name. `patience` is the time limit for each reply; `None`: the call follows the
/// program until it ends, and the last reply is null.
fn call_at(
    device: &str,
    call: &Call,
    patience: Option<Duration>,
    each: impl FnMut(Value) -> bool,
) -> Result<Result<Value, Refusal>, ControlError> {
    let running = find(device)?;
    let answered = connect(&running)
        .map_err(Unanswered::Failed)
        .and_then(|mut client| client.call(call, patience, each));
    match answered {
        Ok(last) => Ok(Ok(last)),
        Err(Unanswered::Refused(refusal)) => Ok(Err(refusal)),
        // The program that was followed has ended.
        Err(Unanswered::Failed(error))
            if patience.is_none() && error.kind() == io::ErrorKind::UnexpectedEof =>
        {
            Ok(Ok(Value::Null))
        }
        Err(Unanswered::Failed(error)) => Err(ControlError::unanswered(device, error)),
    }
}

fn connect(running: &Running) -> io::Result<Client> {
    let client = Client::connect(&running.socket).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!(
                "you may not open the control socket {}: run this as root, or as a member of the group `control.group` of the \
                 running diolkos",
                running.socket.display()
            ),
        ),
        _ => error,
    })?;
    // While the program holds its lock, no other process can listen there. If it has ended, the reply may come from a
    // successor.
    if !running.lasts() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let server = Caller::of(&client)?;
    if !server.is_trusted() && running.owner != Some(server.uid()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "process {} of user {} has the control socket {}, and is neither root nor you: run this as user {}",
                server.pid(),
                server.uid(),
                running.socket.display(),
                server.uid()
            ),
        ));
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    use socket2::{Domain, SockAddr, Socket, Type};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_full_queue_holds_up_nobody() {
        let path = std::env::temp_dir().join(format!("diolkos-full-{}", std::process::id()));
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener
            .bind(&SockAddr::unix(&path).expect("it is short"))
            .expect("it is free");
        listener.listen(0).expect("it listens");
        let _listener = UnixListener::from(OwnedFd::from(listener));
        let mut waiting = Vec::new();
        let full = loop {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            socket.set_write_timeout(Some(SHORT)).expect("it is set");
            match socket.connect(&SockAddr::unix(&path).expect("it is short")) {
                Ok(()) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).expect("it is there");
        let said = ControlError::unanswered("x", full).to_string();
        assert!(said.contains("busy"), "{said}");
    }

    #[test]
    fn what_does_not_answer_is_busy_and_what_has_gone_starts_or_ends() {
        let busy = ControlError::unanswered("x", io::ErrorKind::WouldBlock.into());
        assert!(busy.to_string().contains("busy"), "{busy}");
        let gone = ControlError::unanswered("x", io::ErrorKind::UnexpectedEof.into());
        assert!(gone.to_string().contains("starting or ending"), "{gone}");
    }
}
