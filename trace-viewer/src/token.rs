//! The secret in an address. Without it a client gets no content.

use std::{
    fs::File,
    io::{self, Read as _},
};

const BYTES: usize = 16;

/// 128 random bits in hexadecimal.
#[derive(Clone, Debug)]
pub(crate) struct Token(String);

impl Token {
    /// A new random token.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `guess` is this token. The time does not depend on how much of a guess is right.
    pub(crate) fn is(&self, guess: &str) -> bool {
        let difference = self.0.bytes().zip(guess.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        guess.len() == self.0.len() && difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert_ne!(one.as_str(), other.as_str());
        assert!(one.is(one.as_str()) && !one.is(other.as_str()));
        assert!(!one.is("") && !one.is(&one.as_str()[1..]) && !one.is(&format!("{}0", one.as_str())));
    }
}
