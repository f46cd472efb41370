// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion of values that depend on the machine: its interfaces, and the running translators. The generator has no hint for
//! them, so each script gets some additional lines.

use clap_complete::Shell;

/// The script with these values.
pub fn added(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Fish => format!("{script}{FISH}"),
        Shell::Zsh => zsh(script),
        _ => script.to_owned(),
    }
}

/// The generated function handles everything else.
const BASH: &str = r#"
# Sockets can be listed by root; devices by everybody.
_diolkos_devices() {
    local socket
    for socket in /run/diolkos/*/*.sock; do
        [[ -S $socket ]] && socket=${socket##*/} && printf '%s\n' "${socket%.sock}"
    done
    printf '%s\n' /sys/class/net/diolkos*
}

_diolkos_with_values() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} values
    # `=` is a word of its own.
    [[ $cur == = ]] && cur=
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
    case "${COMP_WORDS[1]} $prev" in
        *" --uplink")
            values=$(printf '%s\n' /sys/class/net/* | sed 's|.*/||') ;;
        "clat --device")
            values="diolkos0 diolkos1" ;;
        *" --device")
            values=$(_diolkos_devices | sed 's|.*/||; /\*/d' | sort -u) ;;
        *" --pref64" | *" --v6" | *" --v6-prefix")
            values=auto ;;
        *)
            _diolkos "$@"
            return ;;
    esac
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _diolkos_with_values -o nosort -o bashdefault -o default diolkos
else
    complete -F _diolkos_with_values -o bashdefault -o default diolkos
fi
"#;

const FISH: &str = r#"
function __fish_diolkos_devices
    for socket in /run/diolkos/*/*.sock /sys/class/net/diolkos*
        string replace -r '\.sock$' '' (string replace -r '.*/' '' $socket)
    end | sort -u
end
complete -c diolkos -n "__fish_seen_subcommand_from clat dns64" -l uplink -x -a "(command ls /sys/class/net)"
complete -c diolkos -n "__fish_seen_subcommand_from clat dns64" -l pref64 -x -a auto
complete -c diolkos -n "__fish_seen_subcommand_from clat" -l v6-prefix -x -a auto
complete -c diolkos -n "__fish_seen_subcommand_from clat" -l v6 -x -a auto
complete -c diolkos -n "not __fish_seen_subcommand_from clat" -l device -x -a "(__fish_diolkos_devices)"
"#;

const ZSH: &str = r#"
_diolkos_devices() {
    local -aU names
    names=(/run/diolkos/*/*.sock(N:t:r) /sys/class/net/diolkos*(N:t))
    compadd -a names
}
"#;

/// The generator writes `:NAME OF THE VALUE:_default` after each option.
fn zsh(script: &str) -> String {
    let mut lines: Vec<String> = script.lines().map(of_zsh).collect();
    // After `#compdef diolkos` and the line that loads colours.
    let begin = lines
        .iter()
        .position(|line| line.starts_with("_diolkos()"))
        .unwrap_or(1);
    lines.insert(begin, ZSH.to_owned());
    lines.join("\n") + "\n"
}

fn of_zsh(line: &str) -> String {
    let option = line.trim_start_matches(['\'', '*', '(']);
    let replaced = |action: &str| line.replace(":_default'", &format!(":{action}'"));
    if option.starts_with("--uplink=") {
        replaced("_net_interfaces")
    } else if option.starts_with("--device=[TUN device") {
        replaced("_diolkos_devices")
    } else if ["--pref64=", "--v6=", "--v6-prefix="]
        .iter()
        .any(|name| option.starts_with(name))
    {
        replaced("(auto)")
    } else {
        line.to_owned()
    }
}
