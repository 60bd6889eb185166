//! Names for priorities. Commands, the configuration and programs mean the same by them.

/// The classes by name, each with the priority of what is given only the class, the most urgent first.
pub const CLASSES: [(&str, i16); 4] = [("realtime", 200), ("high", 100), ("normal", 0), ("low", -100)];

/// The priority of a class.
pub fn class_priority(name: &str) -> Option<i16> {
    CLASSES.iter().find(|(class, _)| *class == name).map(|(_, priority)| *priority)
}
