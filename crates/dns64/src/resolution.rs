// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a question to its answer, step by step (RFC 6147 section 5).
//!
//! ours (RFC 8880)? ─► answer
//! AAAA ─► ask AAAA ─► usable ones? ─► answer
//!                 └─► none: ask A ─► synthesise ─► answer
//! PTR of a synthetic address ─► ask in in-addr.arpa ─► alias ─► answer
//! everything else ─► ask ─► answer, as it came; and everything, as long as there is no prefix
//!
//! The operator's lists of names decide by the name that the client asks for, not by those that it is an alias of.
//!
//! The caller sends the questions and passes the replies; this module requests nothing else and never waits.

use domain::rdata::Aaaa;

use crate::answer::{Answer, Origin};
use crate::build::Builder;
use crate::chain::{Chain, Endless};
use crate::names::Synthesis;
use crate::policy::{Policy, Says};
use crate::query::written_length;
use crate::synthesis;
use crate::wire::{Class, Malformed, Message, Name, OptRcode, Question, Rtype, Section, HEADER};
use crate::{reverse, special};

/// The next step of a resolution.
#[derive(Debug)]
pub enum ResolutionStep {
    /// Send this question to upstream, and pass the reply.
    Ask(Ask),
    /// The answer is complete.
    Done(Answer),
}

/// A question for upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The question.
    pub question: Question,
    /// DO.
    pub dnssec_ok: bool,
    /// CD.
    pub checking_disabled: bool,
}

/// The state of a question until it is answered.
#[derive(Debug)]
pub struct Resolution {
    question: Question,
    dnssec_ok: bool,
    checking_disabled: bool,
    stage: Stage,
    /// Steps of the chain in earlier replies.
    taken: usize,
    /// Records of these steps; None before the first.
    front: Option<Builder>,
    front_ttl: u32,
}

/// The purpose of the next reply.
#[derive(Debug)]
enum Stage {
    Pass,
    Aaaa(Name),
    /// The AAAA question was repeated without validation, to see whether validation fails.
    Validation(Option<Answer>),
    A {
        name: Name,
        /// The answer if there are no A records either.
        without: Option<Answer>,
        denial: Option<u32>,
    },
    Reverse(Name),
}

impl Resolution {
    /// Starts with a client's question, its DO and its CD.
    pub fn begin(
        policy: &Policy,
        question: Question,
        dnssec_ok: bool,
        checking_disabled: bool,
    ) -> (Resolution, ResolutionStep) {
        let mut resolution = Resolution {
            stage: Stage::Pass,
            question,
            dnssec_ok,
            checking_disabled,
            taken: 0,
            front: None,
            front_ttl: u32::MAX,
        };
        let step = resolution.first(policy);
        (resolution, step)
    }

    /// Starts again, because the policy has changed.
    pub fn restart(&mut self, policy: &Policy) -> ResolutionStep {
        (self.stage, self.taken) = (Stage::Pass, 0);
        (self.front, self.front_ttl) = (None, u32::MAX);
        self.first(policy)
    }

    fn first(&mut self, policy: &Policy) -> ResolutionStep {
        let question = &self.question;
        // RFC 6147 section 5.5: a client that sets both validates and synthesises by itself.
        let synthesis = !(self.dnssec_ok && self.checking_disabled);
        // These names are special only for a DNS64 (RFC 8880 section 7.1).
        if !policy.has_prefixes() {
            return self.ask(question.clone());
        }
        if let Some(answer) = special::answer(policy, question, synthesis) {
            return ResolutionStep::Done(answer);
        }
        // DNS64 applies only to class IN (RFC 6147 section 5.1).
        if !synthesis || question.qclass() != Class::IN {
            return self.ask(question.clone());
        }
        if let Some(v4) = reverse::node(policy, question) {
            if let Some(answer) = reverse::known(policy, question, v4) {
                return ResolutionStep::Done(answer);
            }
            let name = reverse::in_addr(v4);
            self.stage = Stage::Reverse(name.clone());
            return self.ask(Question::new_in(name, Rtype::PTR));
        }
        let rule = policy.synthesis_of(question.qname());
        if question.qtype() == Rtype::AAAA && rule != Some(Synthesis::Never) {
            self.stage = Stage::Aaaa(question.qname().clone());
        }
        self.ask(question.clone())
    }

    fn ask(&self, question: Question) -> ResolutionStep {
        ResolutionStep::Ask(Ask {
            question,
            dnssec_ok: self.dnssec_ok,
            checking_disabled: self.checking_disabled,
        })
    }

    /// Continues with upstream's reply to the last question; None after a timeout.
    pub fn reply(&mut self, policy: &Policy, reply: Option<&Message<'_>>) -> ResolutionStep {
        let stage = std::mem::replace(&mut self.stage, Stage::Pass);
        let step = match (stage, reply) {
            (Stage::Pass, None) | (Stage::Reverse(_), None) => {
                Ok(ResolutionStep::Done(Answer::failure()))
            }
            (Stage::Pass, Some(message)) => match self.pass(policy, message) {
                Ok(answer) => Ok(ResolutionStep::Done(answer)),
                Err(Malformed) => Err(Endless),
            },
            (Stage::Aaaa(name), reply) => self.aaaa(policy, &name, reply),
            (Stage::Validation(first), reply) => Ok(self.validation(first, reply)),
            (
                Stage::A {
                    name,
                    without,
                    denial,
                },
                reply,
            ) => self.a(policy, &name, without, denial, reply),
            (Stage::Reverse(name), Some(message)) => self.reverse(policy, &name, message),
        };
        step.unwrap_or_else(|Endless| ResolutionStep::Done(Answer::failure()))
    }

    fn aaaa(
        &mut self,
        policy: &Policy,
        name: &Name,
        reply: Option<&Message<'_>>,
    ) -> Result<ResolutionStep, Endless> {
        // A timeout counts as a server failure (RFC 6147 section 5.1.3).
        let Some(message) = reply else {
            return Ok(match policy.passes_errors() {
                true => ResolutionStep::Done(Answer::failure()),
                false => self.ask_a(None, None),
            });
        };
        match message.rcode() {
            OptRcode::NOERROR => {}
            code if code == OptRcode::NXDOMAIN || policy.passes_errors() => {
                return Ok(ResolutionStep::Done(self.pass(policy, message)?));
            }
            OptRcode::SERVFAIL if !self.checking_disabled => {
                self.stage = Stage::Validation(Some(self.pass(policy, message)?));
                return Ok(ResolutionStep::Ask(Ask {
                    question: Question::new_in(name.clone(), Rtype::AAAA),
                    dnssec_ok: self.dnssec_ok,
                    checking_disabled: true,
                }));
            }
            // Any other code counts as an empty answer (RFC 6147 section 5.1.2).
            _ => return Ok(self.ask_a(None, None)),
        }
        let chain = Chain::follow(message, name, self.taken)?;
        let found = synthesis::usable(policy, message, &chain)?;
        let rule = policy.synthesis_of(self.question.qname());
        let always = rule == Some(Synthesis::Always);
        if found.excluded == 0 && !found.usable.is_empty() && !always {
            return Ok(ResolutionStep::Done(self.pass(policy, message)?));
        }
        if found.excluded == 0 && chain.is_broken_off(Rtype::AAAA) {
            let end = chain.end.clone();
            self.go_on(&chain)?;
            self.stage = Stage::Aaaa(end.clone());
            return Ok(self.ask(Question::new_in(end, Rtype::AAAA)));
        }
        // At least one record is excluded, or there are no records, or they do not matter.
        let without = match found.excluded {
            0 => self.pass(policy, message)?,
            _ => {
                let mut builder = self.builder();
                chain.put(&mut builder)?;
                for record in &found.usable {
                    builder.copy(message, record)?;
                }
                builder.copy_section(message, Section::Authority)?;
                builder.copy_section(message, Section::Additional)?;
                let says = match found.usable.is_empty() {
                    true => Says::Nothing(message.negative_ttl()),
                    false => Says::There,
                };
                builder.finish(policy, OptRcode::NOERROR, Origin::Filtered, says)
            }
        };
        if !found.usable.is_empty() && !always {
            return Ok(ResolutionStep::Done(without));
        }
        Ok(self.ask_a(Some(without), message.negative_ttl()))
    }

    /// If the reply without validation is good, validation has failed, and the client gets SERVFAIL (RFC 6147 section
    /// 5.5). Otherwise the server cannot answer AAAA questions (section 5.1.2, RFC 4074).
    fn validation(&mut self, first: Option<Answer>, reply: Option<&Message<'_>>) -> ResolutionStep {
        let good = |m: &Message<'_>| matches!(m.rcode(), OptRcode::NOERROR | OptRcode::NXDOMAIN);
        match reply {
            Some(message) if good(message) => {
                ResolutionStep::Done(first.unwrap_or_else(Answer::failure))
            }
            _ => self.ask_a(None, None),
        }
    }

    /// `without`: the answer if there are no A records; if None, the answer to the A question is used.
    fn ask_a(&mut self, without: Option<Answer>, denial: Option<u32>) -> ResolutionStep {
        // Start the chain again, because the whole chain belongs in the answer.
        (self.taken, self.front, self.front_ttl) = (0, None, u32::MAX);
        let name = self.question.qname().clone();
        self.stage = Stage::A {
            name: name.clone(),
            without,
            denial,
        };
        self.ask(Question::new_in(name, Rtype::A))
    }

    fn a(
        &mut self,
        policy: &Policy,
        name: &Name,
        without: Option<Answer>,
        denial: Option<u32>,
        reply: Option<&Message<'_>>,
    ) -> Result<ResolutionStep, Endless> {
        let Some(message) = reply else {
            return Ok(ResolutionStep::Done(Answer::failure()));
        };
        // The error is the answer (RFC 6147 section 5.1.6).
        if message.rcode() != OptRcode::NOERROR {
            return Ok(ResolutionStep::Done(self.pass(policy, message)?));
        }
        let chain = Chain::follow(message, name, self.taken)?;
        if chain.is_broken_off(Rtype::A) {
            let end = chain.end.clone();
            self.go_on(&chain)?;
            self.stage = Stage::A {
                name: end.clone(),
                without,
                denial,
            };
            return Ok(self.ask(Question::new_in(end, Rtype::A)));
        }
        let synthetic = synthesis::synthesise(policy, message, &chain, denial)?;
        if synthetic.is_empty() {
            // The answer to the original question (RFC 6147 section 5.4), unless that was an error.
            let excluded = chain.at_end(Rtype::A).next().is_some();
            return Ok(ResolutionStep::Done(match without {
                Some(without) => without,
                None if excluded => Answer::empty(OptRcode::NOERROR, Origin::Filtered, 0),
                None => self.pass(policy, message)?,
            }));
        }
        let mut builder = self.builder();
        chain.put(&mut builder)?;
        for record in synthetic {
            builder.answer(&chain.end, record.ttl, Aaaa::new(record.address));
        }
        builder.copy_section(message, Section::Authority)?;
        builder.copy_section(message, Section::Additional)?;
        let answer = builder.finish(policy, OptRcode::NOERROR, Origin::Synthesised, Says::There);
        Ok(ResolutionStep::Done(answer))
    }

    fn reverse(
        &mut self,
        policy: &Policy,
        name: &Name,
        message: &Message<'_>,
    ) -> Result<ResolutionStep, Endless> {
        let chain = Chain::follow(message, name, self.taken)?;
        if message.rcode() == OptRcode::NOERROR && chain.is_broken_off(Rtype::PTR) {
            let end = chain.end.clone();
            self.go_on(&chain)?;
            self.stage = Stage::Reverse(end.clone());
            return Ok(self.ask(Question::new_in(end, Rtype::PTR)));
        }
        let answer = reverse::answer(policy, &self.question, message, &chain, self.front_ttl)?;
        Ok(ResolutionStep::Done(answer))
    }

    /// Keeps the records of an incomplete chain.
    fn go_on(&mut self, chain: &Chain<'_>) -> Result<(), Malformed> {
        let mut front = self.builder();
        chain.put(&mut front)?;
        self.front = Some(front);
        self.front_ttl = self.front_ttl.min(chain.ttl);
        self.taken += chain.length;
        Ok(())
    }

    fn builder(&mut self) -> Builder {
        self.front
            .take()
            .unwrap_or_else(|| Builder::new(&self.question))
    }

    /// Returns the reply unchanged: copied as bytes if it answers the client's own question, otherwise written anew.
    fn pass(&mut self, policy: &Policy, message: &Message<'_>) -> Result<Answer, Malformed> {
        let code = message.rcode();
        let denial = message.negative_ttl();
        let empty = message.section(Section::Answer).next().is_none();
        let says = match code == OptRcode::NOERROR && !empty && denial.is_none() {
            true => Says::There,
            false => Says::Nothing(denial),
        };
        let own = self.taken == 0
            && message.question_end == HEADER + written_length(&self.question)
            && message
                .question
                .as_ref()
                .is_some_and(|q| q.qname() == self.question.qname());
        if own {
            if let Some(answer) = Answer::copy(policy, message, says) {
                return Ok(answer);
            }
        }
        let mut builder = self.builder();
        for section in [Section::Answer, Section::Authority, Section::Additional] {
            builder.copy_section(message, section)?;
        }
        Ok(builder.finish(policy, code, Origin::Passed, says))
    }
}
