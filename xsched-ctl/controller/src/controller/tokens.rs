//! What `run` has requested, by the token that its command carries.

use std::collections::{BTreeSet, HashMap};

use xsched_control_api::parameters::Wish;

use super::ClientId;
use super::authority::Account;

/// 128 bits that only a command and its children know.
pub(super) type TokenKey = [u8; 16];

/// Most tokens of a party at once. Each belongs to a process that waits for its command.
const TOKENS_PER_PARTY_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Tokens(HashMap<TokenKey, Token>);

#[derive(Debug)]
struct Token {
    account: Account,
    granted: Granted,
    /// Connected processes that have shown it.
    clients: BTreeSet<ClientId>,
    /// Number of processes that have ever shown it.
    joined: u64,
    /// The connection of `run` still exists.
    is_attended: bool,
}

/// What was requested with a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) wish: Wish,
    /// A privileged user requested it. Otherwise each process gets only as much as its own ceiling allows: tokens can
    /// be passed on.
    pub(super) is_privileged: bool,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRefused {
    /// It is not a token.
    Malformed,
    /// It belongs to another party.
    Taken,
    /// The party has too many.
    Full,
}

impl Tokens {
    /// Registers a token, or replaces the request of a known one.
    pub(super) fn register(
        &mut self,
        account: Account,
        text: &str,
        granted: Granted,
    ) -> Result<TokenKey, TokenRefused> {
        let key = parse(text).ok_or(TokenRefused::Malformed)?;
        if let Some(known) = self.0.get_mut(&key) {
            if known.account != account || known.is_attended {
                return Err(TokenRefused::Taken);
            }
            (known.granted, known.is_attended) = (granted, true);
            return Ok(key);
        }
        if self.0.values().filter(|token| token.account == account).count() >= TOKENS_PER_PARTY_MAX {
            return Err(TokenRefused::Full);
        }
        let token = Token { account, granted, clients: BTreeSet::new(), joined: 0, is_attended: true };
        self.0.insert(key, token);
        Ok(key)
    }

    /// `run` has gone. The token stays valid for processes that have joined with it.
    pub(super) fn leave(&mut self, key: &TokenKey) {
        if let Some(token) = self.0.get_mut(key) {
            token.is_attended = false;
        }
        self.forget_if_unused(key);
    }

    /// A process shows a token.
    pub(super) fn join(&mut self, key: &TokenKey, client: ClientId) {
        if let Some(token) = self.0.get_mut(key) {
            token.joined += u64::from(token.clients.insert(client));
        }
    }

    /// A process that has shown a token has gone.
    pub(super) fn part(&mut self, key: &TokenKey, client: ClientId) {
        if let Some(token) = self.0.get_mut(key) {
            token.clients.remove(&client);
        }
        self.forget_if_unused(key);
    }

    /// What was requested with a token.
    pub(super) fn granted(&self, key: &TokenKey) -> Granted {
        self.0.get(key).map(|token| token.granted).unwrap_or_default()
    }

    /// Which connected processes have shown a token, and how many ever have.
    pub(super) fn joined(&self, key: &TokenKey) -> (BTreeSet<ClientId>, u64) {
        self.0.get(key).map(|token| (token.clients.clone(), token.joined)).unwrap_or_default()
    }

    fn forget_if_unused(&mut self, key: &TokenKey) {
        if self.0.get(key).is_some_and(|token| !token.is_attended && token.clients.is_empty()) {
            self.0.remove(key);
        }
    }
}

/// Reads 32 hexadecimal digits. All zeros mean no token.
fn parse(text: &str) -> Option<TokenKey> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let key = u128::from_str_radix(text, 16).ok().filter(|key| *key != 0)?;
    Some(key.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use xsched_control_api::peer::Peer;

    use super::super::authority::Actor;
    use super::*;

    const TEXT: &str = "000102030405060708090a0b0c0d0e0f";
    const KEY: TokenKey = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const WISH: Granted = Granted { wish: Wish { priority: Some(3), ..Wish::NONE }, is_privileged: false };

    fn of(uid: u32) -> Account {
        Actor::of(&Peer::unknown(1, uid)).account()
    }

    #[test]
    fn a_token_lives_as_long_as_it_is_needed() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.register(of(7), TEXT, WISH), Ok(KEY));
        tokens.join(&KEY, ClientId(1));
        tokens.leave(&KEY);
        assert_eq!(tokens.granted(&KEY), WISH);
        assert_eq!(tokens.joined(&KEY), ([ClientId(1)].into(), 1));
        tokens.part(&KEY, ClientId(1));
        assert_eq!((tokens.granted(&KEY), tokens.0.len()), (Granted::default(), 0));
    }

    #[test]
    fn no_user_takes_anothers_token() {
        let mut tokens = Tokens::default();
        tokens.register(of(7), TEXT, WISH).unwrap();
        assert_eq!(tokens.register(of(8), TEXT, WISH), Err(TokenRefused::Taken));
        assert_eq!(tokens.register(of(7), TEXT, WISH), Err(TokenRefused::Taken));
    }

    #[test]
    fn tokens_of_a_user_are_limited() {
        let mut tokens = Tokens::default();
        for count in 1..=TOKENS_PER_PARTY_MAX {
            tokens.register(of(7), &format!("{count:032x}"), WISH).unwrap();
        }
        assert_eq!(tokens.register(of(7), TEXT, WISH), Err(TokenRefused::Full));
        assert!(tokens.register(of(8), TEXT, WISH).is_ok());
    }

    #[test]
    fn malformed_tokens_are_refused() {
        for text in ["", "00", &"0".repeat(32), &"g".repeat(32), &format!("+{}", "1".repeat(31))] {
            assert_eq!(Tokens::default().register(of(7), text, WISH), Err(TokenRefused::Malformed), "{text}");
        }
    }
}
