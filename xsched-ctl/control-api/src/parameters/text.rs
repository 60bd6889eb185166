//! Optional parameters as the text that users write for them.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
pub(super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

pub(super) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}
