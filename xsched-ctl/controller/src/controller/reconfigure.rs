//! Replacing the configuration while processes are connected.

use std::fmt::Display;
use std::time::Duration;

use xsched_arbiter::Times;
use xsched_sched::Nanos;
use xsched_symbols::now_ns;

use super::Controller;
use crate::config::Config;
use crate::users::Users;

/// The effects of a new configuration, for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) effective: Vec<String>,
    /// Changes that are not, and why or for which processes.
    pub(crate) not_effective: Vec<String>,
}

impl Controller {
    /// Applies another configuration. What commands have set stays, as it does at the start.
    pub(crate) fn reconfigure(&mut self, mut config: Config, users: Users) -> Changes {
        let mut changes = Changes::default();
        // Processes get this setting only when they connect.
        if config.observe != self.config.observe {
            changes.not_effective.push(format!(
                "observe stays {}: changing it to {} needs a restart of the controller",
                self.config.observe, config.observe
            ));
            config.observe = self.config.observe;
        }
        if config.metrics != self.config.metrics {
            changes
                .not_effective
                .push("metrics: a change of the endpoint needs a restart of the controller".to_owned());
        }
        self.change_policy(&config, &mut changes);
        self.change_times(&config, &mut changes);
        self.report_settings_for_new_connections(&config, &mut changes);
        let before: Vec<_> = self.clients.values().map(|client| self.parameters_of(client)).collect();
        self.config = config;
        self.replace_users(users);
        let ids = self.clients.keys().copied().collect::<Vec<_>>();
        let mut changed = 0;
        for (id, before) in ids.iter().zip(before) {
            // What was set for its claims alone may now combine with other parameters.
            self.restand(*id);
            changed += usize::from(self.parameters_of(&self.clients[id]) != before);
        }
        self.warn_of_all_promises(now_ns());
        changes.effective.push(format!("parameters of {changed} of {} processes changed", ids.len()));
        changes
    }

    pub(crate) fn replace_users(&mut self, users: Users) {
        self.users.replace(users);
        self.update_user_names(|_| true);
    }

    pub(crate) fn knows_user(&self, uid: u32) -> bool {
        self.users.knows(uid)
    }

    pub(crate) fn learn_user(&mut self, uid: u32, name: Option<&str>) {
        self.users.learn(uid, name);
        self.update_user_names(|of| of == uid);
    }

    /// Updates the user names of these users' processes, and their scheduling parameters.
    fn update_user_names(&mut self, of: impl Fn(u32) -> bool) {
        let mut renamed = Vec::new();
        for (id, client) in self.clients.iter_mut().filter(|(_, client)| of(client.subject.uid)) {
            let names = self.users.names(client.subject.uid);
            if names != client.subject.users {
                client.subject.users = names;
                renamed.push(*id);
            }
        }
        for id in renamed {
            self.restand(id);
        }
    }

    fn change_policy(&mut self, config: &Config, changes: &mut Changes) {
        let was = self.scheduler.policy();
        if config.policy == was {
            return;
        }
        if self.is_policy_ordered {
            changes.not_effective.push(format!(
                "policy {was} stays, because a command has set it; `xsched-ctl policy {}` applies the configuration's",
                config.policy
            ));
        } else {
            self.scheduler.set_policy(Nanos(now_ns()), config.policy);
            changes.effective.push(changed("policy", was, config.policy));
        }
    }

    fn change_times(&mut self, config: &Config, changes: &mut Changes) {
        let was = &self.config;
        let times = [
            ("starvation", was.starvation, config.starvation),
            ("lease", was.lease, config.lease),
            ("linger", was.linger, config.linger),
            ("one_at_a_time", was.one_at_a_time, config.one_at_a_time),
        ];
        let others = times.into_iter().filter(|(_, was, is)| was != is);
        changes.effective.extend(others.map(|(key, was, is)| changed(key, time(was), time(is))));
        if config.side_by_side != was.side_by_side {
            changes.effective.push(changed("side_by_side", was.side_by_side, config.side_by_side));
        }
        if config.settings() != was.settings() {
            self.scheduler.set_settings(Nanos(now_ns()), config.settings());
        }
        if (config.lease, config.linger) != (was.lease, was.linger) {
            self.arbiter.set_times(&Times { lease: config.lease, linger: config.linger, ..Times::default() });
        }
    }

    /// Reports settings that processes only get when they connect.
    fn report_settings_for_new_connections(&self, config: &Config, changes: &mut Changes) {
        let in_flight = |config: &Config| config.in_flight.map_or_else(|| "measured".to_owned(), time);
        let mode = |config: &Config| config.preemption_mode.to_string();
        let told = [
            ("in_flight", in_flight(&self.config), in_flight(config)),
            ("preemption", mode(&self.config), mode(config)),
            ("poll", time(self.config.poll), time(config.poll)),
        ];
        for (key, was, is) in told.into_iter().filter(|(_, was, is)| was != is) {
            changes
                .not_effective
                .push(format!("{}: applies to processes that connect from now on", changed(key, was, is)));
        }
    }
}

fn changed(key: &str, was: impl Display, is: impl Display) -> String {
    format!("{key}: {was} -> {is}")
}

fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}
