//! Requests of commands, and their effects.

use std::borrow::Cow;
use std::collections::BTreeSet;

use xsched_control_api::{
    answer::{Answer, Changed, Reason, State},
    parameters::{Parameters, Wish},
    request::{Request, Target},
};
use xsched_sched::{Nanos, PolicyKind};
use xsched_symbols::now_ns;

use super::authority::{Actor, OrderError, audit};
use super::client::Said;
use super::tokens::{Granted, TokenKey, TokenRefused};
use super::{ClientId, Controller};

/// What a command's connection keeps between its requests.
#[derive(Debug, Default)]
pub(crate) struct Attendance(Option<TokenKey>);

impl Controller {
    /// Handles a request, if the caller may make it.
    pub(crate) fn order(&mut self, actor: Actor, request: Request, attendance: &mut Attendance) -> Answer {
        let what = describe(&request);
        let is_change = request.is_change();
        let outcome = match request {
            Request::Status {} => Ok(Answer::Status(self.status())),
            Request::List {} => Ok(Answer::List(self.list(actor))),
            Request::Set { target, wish } => self.set(actor, &target, wish),
            Request::Policy { name: None } => Ok(self.policy()),
            Request::Policy { name: Some(name) } => self.set_policy(actor, &name),
            Request::Off {} => self.set_state(actor, State::Off),
            Request::On {} => self.set_state(actor, self.state_when_on()),
            Request::Run { wish, token } => self.register(actor, wish, &token, attendance),
            Request::Joined {} => Ok(self.joined(attendance)),
            // The answer comes from elsewhere; only the permission is checked here.
            Request::Explain { pid } => {
                self.check_sight(actor, pid).map(|()| Answer::Run { overpromised: None })
            }
        };
        match outcome {
            Ok(answer) => {
                if is_change {
                    audit(actor, &what, Ok(&effect(&answer)));
                }
                answer
            }
            Err(error) => {
                let is_forbidden = matches!(error.reason(), Reason::NotPermitted | Reason::AboveCeiling);
                self.counts.forbidden += u64::from(is_forbidden);
                audit(actor, &what, Err(&error));
                Answer::Refused { reason: error.reason(), message: error.to_string() }
            }
        }
    }

    pub(crate) fn part(&mut self, attendance: &Attendance) {
        if let Attendance(Some(token)) = attendance {
            self.wishes.tokens.leave(token);
        }
    }

    fn set(&mut self, actor: Actor, target: &Target, wish: Wish) -> Result<Answer, OrderError> {
        wish.check().map_err(|error| OrderError::Malformed(error.to_string()))?;
        let ids = match target {
            Target::Pid(pid) => self.find(*pid)?,
            Target::Claim(slot) => vec![self.client_of(*slot)?],
            Target::Cgroup(cgroup) => {
                actor.check_privileged()?;
                // The form in which the kernel writes the paths that these are compared with.
                if !cgroup.starts_with('/')
                    || cgroup.len() > 4096
                    || cgroup.contains("//")
                    || (cgroup.ends_with('/') && cgroup != "/")
                {
                    return Err(OrderError::Malformed(
                        "a cgroup is a path that begins with a slash and does not end with one, as in /proc/PID/cgroup"
                            .to_owned(),
                    ));
                }
                let is_in = |id: &ClientId| self.clients[id].subject.cgroups().any(|own| own == cgroup);
                self.clients.keys().copied().filter(is_in).collect()
            }
        };
        let old: Vec<_> = ids.iter().map(|id| self.parameters(*id, target)).collect();
        // A cgroup has many processes, and only privileged users set it.
        let wish = match (target, &old[..]) {
            (Target::Pid(_) | Target::Claim(_), [now, ..]) => wish.completed(*now),
            _ => wish,
        };
        for (id, now) in ids.iter().zip(&old) {
            let client = &self.clients[id];
            // A reset may remove what kept the process down: the rest must then be within the caller's rights.
            let asked = if wish.is_empty() { self.wish_without(*id, target) } else { wish };
            actor.check_change(client.actor(), self.config.ceiling(&client.subject), *now, asked)?;
        }
        self.check_promises(&ids, target, wish)?;
        self.note(target, wish)?;
        for id in &ids {
            self.restand(*id);
        }
        let changed = ids.iter().zip(old).map(|(id, old)| {
            let subject = &self.clients[id].subject;
            Changed {
                pid: subject.pid,
                command: subject.command.clone(),
                old,
                new: self.parameters(*id, target),
            }
        });
        Ok(Answer::Set { changed: changed.collect() })
    }

    /// Remembers what was set. Parts that were not mentioned keep their earlier values; an empty wish removes all.
    fn note(&mut self, target: &Target, wish: Wish) -> Result<(), OrderError> {
        let merged = |before: Wish| if wish.is_empty() { wish } else { wish.or(before) };
        match target {
            Target::Pid(pid) => {
                for id in self.find(*pid)? {
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.set = merged(client.set);
                    }
                }
            }
            Target::Claim(slot) => {
                if let Some(claim) = self.claims.get_mut(slot) {
                    claim.set = merged(claim.set);
                }
            }
            Target::Cgroup(cgroup) => {
                self.wishes.set_for_group(cgroup, wish)?;
            }
        }
        Ok(())
    }

    /// The scheduling parameters of a process or of one of its claims.
    pub(super) fn parameters(&self, id: ClientId, target: &Target) -> Parameters {
        let client = &self.clients[&id];
        let said = self.wishes.of(client);
        let said = match target {
            Target::Claim(slot) => self.claims.get(slot).map_or(said, |claim| claim.said(&said)),
            _ => said,
        };
        client.parameters(&self.config, &said).0
    }

    /// What a process would have if nothing were set for this target.
    fn wish_without(&self, id: ClientId, target: &Target) -> Wish {
        let client = &self.clients[&id];
        let said = self.wishes.of(client);
        let set = match target {
            Target::Pid(_) => self.wishes.of_group(client),
            Target::Claim(_) => said.set,
            Target::Cgroup(_) => Wish::default(),
        };
        let Parameters { priority, weight, share, quota, deadline, work, slo } =
            client.parameters(&self.config, &Said { set, ..said }).0;
        Wish { priority: Some(priority), weight: Some(weight), share, quota, deadline, work, slo }
    }

    /// The connections of a process, at least one.
    pub(super) fn find(&self, pid: u32) -> Result<Vec<ClientId>, OrderError> {
        let found = self.of_process(pid);
        if found.is_empty() {
            return Err(OrderError::NotFound(format!("process {pid} has not joined")));
        }
        Ok(found)
    }

    fn client_of(&self, slot: u32) -> Result<ClientId, OrderError> {
        let claim = self.claims.get(&slot);
        claim
            .map(|claim| claim.client)
            .ok_or_else(|| OrderError::NotFound(format!("there is no claim {slot}")))
    }

    fn policy(&self) -> Answer {
        let policy = self.scheduler.policy().to_string();
        Answer::Policy { was: policy.clone(), policy, turned: None }
    }

    fn set_policy(&mut self, actor: Actor, name: &str) -> Result<Answer, OrderError> {
        actor.check_privileged()?;
        let policy: PolicyKind = name
            .parse()
            .map_err(|error: xsched_sched::UnknownPolicy| OrderError::NotFound(error.to_string()))?;
        let was = self.scheduler.policy().to_string();
        self.scheduler.set_policy(Nanos(now_ns()), policy);
        self.is_policy_ordered = true;
        self.warn_of_all_promises(now_ns());
        // Choosing a policy turns scheduling on.
        let turned = (self.state == State::Off).then(|| self.state_when_on());
        if let Some(state) = turned {
            self.turn(state);
        }
        Ok(Answer::Policy { policy: policy.to_string(), was, turned })
    }

    fn set_state(&mut self, actor: Actor, state: State) -> Result<Answer, OrderError> {
        actor.check_privileged()?;
        let was = self.state;
        self.turn(state);
        Ok(Answer::State { state, was })
    }

    fn state_when_on(&self) -> State {
        if self.config.observe { State::Observing } else { State::Active }
    }

    fn turn(&mut self, state: State) {
        self.state = state;
        match state {
            State::Active => self.arbiter.heartbeat(),
            State::Off | State::Observing => self.arbiter.release(),
        }
    }

    fn register(
        &mut self,
        actor: Actor,
        wish: Wish,
        token: &str,
        attendance: &mut Attendance,
    ) -> Result<Answer, OrderError> {
        wish.check().map_err(|error| OrderError::Malformed(error.to_string()))?;
        if attendance.0.is_some() {
            return Err(OrderError::Malformed("one command per connection".to_owned()));
        }
        // The command does not run yet; it will be in the cgroup of the process that starts it. Rules may give it more
        // than the ceiling does.
        let subject = self.subject(actor.pid, actor.uid);
        actor.check_change(actor, self.config.ceiling(&subject), Parameters::default(), wish)?;
        // It is not known yet which devices it will use.
        let overpromised = wish.share.and_then(|share| self.overpromised_with(share));
        let granted = Granted { wish, is_privileged: actor.is_privileged() };
        let key =
            self.wishes.tokens.register(actor.account(), token, granted).map_err(
                |refused| match refused {
                    TokenRefused::Malformed => {
                        OrderError::Malformed("a token has 32 hexadecimal digits".to_owned())
                    }
                    TokenRefused::Taken => OrderError::Malformed("the token is in use".to_owned()),
                    TokenRefused::Full => OrderError::Full("too many commands run at once"),
                },
            )?;
        attendance.0 = Some(key);
        // After a restart of the controller, processes may have connected before the command that started them.
        let has_it = |id: &ClientId| self.clients[id].token == Some(key);
        for id in self.clients.keys().copied().filter(has_it).collect::<Vec<_>>() {
            self.wishes.tokens.join(&key, id);
            self.restand(id);
        }
        Ok(Answer::Run { overpromised })
    }

    fn joined(&self, attendance: &Attendance) -> Answer {
        let (clients, count) =
            attendance.0.map(|token| self.wishes.tokens.joined(&token)).unwrap_or_default();
        let processes: BTreeSet<_> = clients.iter().map(|id| self.clients[id].subject.pid).collect();
        Answer::Joined { processes: processes.into_iter().collect(), count }
    }
}

/// A description for the audit log.
fn describe(request: &Request) -> String {
    match request {
        Request::Status {} => "status".to_owned(),
        Request::List {} => "list".to_owned(),
        Request::Policy { name: None } => "policy".to_owned(),
        Request::Explain { pid } => format!("explain process {pid}"),
        Request::Joined {} => "whether a command's processes have joined".to_owned(),
        Request::Set { target, wish } if wish.is_empty() => format!("reset {}", brief(&target.to_string())),
        Request::Set { target, wish } => format!("set {} to {}", brief(&target.to_string()), parts(*wish)),
        Request::Policy { name: Some(name) } => format!("policy {:?}", brief(name)),
        Request::Off {} => "off".to_owned(),
        Request::On {} => "on".to_owned(),
        Request::Run { wish, .. } => format!("run a command with {}", parts(*wish)),
    }
}

/// The words of a caller, cut off if they are unreasonably long.
fn brief(words: &str) -> Cow<'_, str> {
    /// The paths of containers' cgroups are some 250 bytes long.
    const LEN_MAX: usize = 512;
    let len = words.floor_char_boundary(LEN_MAX);
    if len == words.len() {
        words.into()
    } else {
        format!("{}… ({} bytes)", &words[..len], words.len()).into()
    }
}

fn parts(wish: Wish) -> String {
    let parts = [
        wish.priority.map(|priority| format!("priority {priority}")),
        wish.weight.map(|weight| format!("weight {weight}")),
        wish.share.map(|share| format!("share {share} %")),
        wish.quota.map(|quota| format!("quota {quota}")),
        wish.deadline.map(|deadline| format!("deadline {deadline}")),
        wish.work.map(|work| format!("work {work}")),
        wish.slo.map(|slo| format!("SLO {slo}")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing special".to_owned() } else { parts.join(", ") }
}

fn effect(answer: &Answer) -> String {
    match answer {
        Answer::Set { changed, .. } => {
            let changes: Vec<_> = changed
                .iter()
                .map(|one| format!("process {}: {} -> {}", one.pid, one.old, one.new))
                .collect();
            if changes.is_empty() { "noted".to_owned() } else { changes.join("; ") }
        }
        Answer::Policy { policy, was, turned: None } => format!("{was} -> {policy}"),
        Answer::Policy { policy, was, turned: Some(state) } => format!("{was} -> {policy}; off -> {state}"),
        Answer::State { state, was } => format!("{was} -> {state}"),
        // The caller finds out whether it can be started.
        Answer::Run { .. } => "noted for the processes that it starts".to_owned(),
        _ => "done".to_owned(),
    }
}
