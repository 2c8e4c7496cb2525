//! What a generation's numbers mean, written behind its tables: names of zones and rules, and how far its counts go. The programs
//! never read it. A firewall that is started finds by it what an earlier one left, in one piece with the tables in force, because
//! both are in the same map. Pure: no IO.

use serde::{Deserialize, Serialize};

/// Behind the notes, at the very end of the map: these bytes and the notes' length.
const MARK: [u8; 8] = *b"rampart1";
const TRAILER_BYTES: usize = MARK.len() + 8;

/// What a later firewall must know of a generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// The build whose tables and flows these are: `FIREWALL_BUILD`.
    pub(crate) build: String,
    pub(crate) generation: u32,
    /// By the data plane's number.
    pub(crate) zones: Vec<String>,
    /// Each rule with its counter.
    pub(crate) rules: Vec<(String, u32)>,
    /// Counters in use and free together.
    pub(crate) slots: u32,
    pub(crate) limits: LimitNotes,
    /// Where its lists of addresses are, and 1; 0: it has none.
    pub(crate) lists: u32,
}

/// Whose count is in which row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitNotes {
    /// The generation's terms are in the second half of the map.
    pub(crate) second: bool,
    /// Slot, rule, and epoch of its count.
    pub(crate) owners: Vec<(u32, String, u32)>,
}

/// The build of these programs.
pub(crate) const BUILD: &str = env!("FIREWALL_BUILD");

/// Appends notes to a generation's pages, which stay a whole number of pages.
pub(crate) fn append(pages: &mut Vec<u8>, notes: &Notes, page_bytes: usize) -> serde_json::Result<()> {
    let text = serde_json::to_vec(notes)?;
    let end = (pages.len() + text.len() + TRAILER_BYTES).next_multiple_of(page_bytes);
    pages.extend_from_slice(&text);
    let length = (text.len() as u64).to_le_bytes();
    // Between the notes and the trailer is nothing but blanks, which JSON allows: so the length may count them.
    let blanks = end - TRAILER_BYTES - pages.len();
    pages.resize(pages.len() + blanks, b' ');
    pages.extend_from_slice(&MARK);
    pages.extend_from_slice(&(u64::from_le_bytes(length) + blanks as u64).to_le_bytes());
    Ok(())
}

/// The bytes of notes before the trailer, by the last page of a map; `None` if there is no trailer.
pub(crate) fn length(last_page: &[u8]) -> Option<usize> {
    let trailer = last_page.last_chunk::<TRAILER_BYTES>()?;
    let (mark, length) = trailer.split_at(MARK.len());
    let length = u64::from_le_bytes(length.try_into().ok()?);
    (mark == MARK).then_some(usize::try_from(length).ok()?)
}

/// Bytes of the end of a map that hold notes of this length.
pub(crate) fn room(length: usize) -> Option<usize> {
    length.checked_add(TRAILER_BYTES)
}

/// The notes in the end of a map, whose last bytes are the trailer.
pub(crate) fn read(end: &[u8]) -> Option<Notes> {
    let length = length(end)?;
    let from = end.len().checked_sub(room(length)?)?;
    serde_json::from_slice(&end[from..from + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_whatever_their_length() {
        for names in 0..200 {
            let notes = Notes {
                build: "b".to_owned(),
                generation: 7,
                zones: vec!["self".to_owned(), "a \"strange\" zone\n".to_owned()],
                rules: (0..names).map(|i| (format!("r{i}"), i)).collect(),
                slots: names,
                limits: LimitNotes { second: true, owners: vec![(3, "r3".to_owned(), 1)] },
                lists: 2,
            };
            let mut pages = vec![1; 1024];
            append(&mut pages, &notes, 512).unwrap();
            assert_eq!(pages.len() % 512, 0);
            assert!(pages[..1024].iter().all(|byte| *byte == 1), "the tables are as they were");
            let length = length(&pages[pages.len() - 512..]).unwrap();
            let end = &pages[pages.len() - room(length).unwrap()..];
            assert_eq!(read(end), Some(notes));
        }
        for wrong in [&b""[..], b"rampart1", &[0; 512], b"rampart1\xff\xff\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
