//! Where the endpoint listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address, as users write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `ADDRESS:PORT`, such as `127.0.0.1:9464` or `[::1]:9464`.
    Tcp(SocketAddr),
}

/// Which readers may reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Other machines may read: an address that they can reach is allowed.
    pub is_public: bool,
    /// The mode of a unix socket.
    pub mode: u32,
}

impl Default for Access {
    /// Of this machine; of a unix socket the controller's user and its group.
    fn default() -> Self {
        Self { is_public: false, mode: 0o660 }
    }
}

/// Not an address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected unix:PATH with an absolute path, or ADDRESS:PORT such as 127.0.0.1:9464")]
pub struct NotListen;

impl FromStr for Listen {
    type Err = NotListen;

    fn from_str(text: &str) -> Result<Self, NotListen> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') && !path.ends_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(NotListen),
            None => text.parse().map(Self::Tcp).map_err(|_| NotListen),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

impl Listen {
    /// Whether processes of other machines cannot reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, is_local) in [
            ("unix:/run/xsched/metrics.sock", true),
            ("127.0.0.1:9464", true),
            ("127.9.9.9:1", true),
            ("[::1]:9464", true),
            ("0.0.0.0:9464", false),
            ("[::]:9464", false),
            ("10.1.2.3:9464", false),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.to_string().as_str(), listen.is_local()), (text, is_local));
        }
        for text in
            ["", "9464", "localhost:9464", "127.0.0.1", "unix:", "unix:metrics.sock", "unix:/run/", "tcp:1"]
        {
            assert_eq!(text.parse::<Listen>(), Err(NotListen), "{text}");
        }
    }
}
