//! Lists that commands fetch, by the clock: what fails leaves the last good list in force, and a restart brings it back.

use super::*;
use crate::fetch::Fetch;
use crate::state::State;
use std::net::IpAddr;
use std::time::Instant;

/// What each program prints, or why it fails; and the programs in the order in which they were run.
#[derive(Debug, Default)]
struct Web {
    answers: Mutex<Vec<(&'static str, Result<String, String>)>>,
    asked: Mutex<Vec<String>>,
    /// Whoever has it keeps programs from answering.
    hold: Mutex<()>,
}

impl Web {
    fn says(&self, program: &'static str, text: Result<&str, &str>) {
        let mut answers = self.answers.lock().unwrap();
        answers.retain(|(other, _)| *other != program);
        answers.push((program, text.map(str::to_owned).map_err(str::to_owned)));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Fetch for Web {
    fn fetch(&self, words: &[String], into: &mut dyn Write) -> Result<(), String> {
        self.asked.lock().unwrap().push(words[0].clone());
        let _held = self.hold.lock().unwrap();
        let answers = self.answers.lock().unwrap();
        let (_, answer) =
            answers.iter().find(|(program, _)| *program == words[0]).expect("a program that answers");
        // What comes before a failure is a part of a list.
        into.write_all(answer.as_deref().unwrap_or("192.0.2.66\n").as_bytes()).unwrap();
        answer.clone().map(drop)
    }
}

/// A daemon with somebody who fetches.
struct Fetching {
    running: Running,
    web: Arc<Web>,
    /// Of what it keeps.
    state: Arc<TempDir>,
}

impl Fetching {
    fn new() -> Self {
        Self::again(Arc::new(tempfile::tempdir().unwrap()), "2026-11-20T10:00:00Z")
    }

    /// One that finds what another has kept.
    fn again(state: Arc<TempDir>, at: &str) -> Self {
        let web = Arc::new(Web::default());
        let running = Running::prepared(&usual(), at, |daemon| {
            daemon
                .keep_in(State::at(state.path()), &"a test".into())
                .fetch_by(Some(Arc::clone(&web) as Arc<dyn Fetch>))
        });
        Self { running, web, state }
    }

    fn has(&self, address: &str) -> Option<u32> {
        let address: IpAddr = address.parse().unwrap();
        self.running.plane.inside().lists.as_ref().map(|lists| lists.look_up(address))
    }

    /// Fetches what is due, reads what has changed, and looks for troubles.
    fn step(&self, seconds: u32) {
        let at = self.running.at(seconds);
        assert!(self.running.daemon.fetch_lists(at) && self.running.daemon.refresh_lists(at));
        self.running.daemon.tick(at);
    }

    fn troubles(&self) -> String {
        self.running.daemon.status().unwrap().troubles.join("; ")
    }

    fn generation(&self) -> u64 {
        self.running.daemon.status().unwrap().policy.generation
    }

    fn logged(&self, event: &str, what: &str) -> usize {
        self.running.log().lines().filter(|line| line.contains(event) && line.contains(what)).count()
    }
}

fn listed(name: &str, more: &str) -> String {
    format!("[lists.{name}]\ncommand = ['{name}', 'x']\nblock = 'both'\nrefresh = '1h'\n{more}\n")
}

/// What nothing is taken from is not fetched, neither at first nor again.
#[test]
fn a_list_that_has_expired_is_not_fetched() {
    let it = Fetching::new();
    it.web.says("feed", Ok("192.0.2.1\n"));
    let policy = |end: &str| format!("{}{}", usual(), listed("feed", &format!("expires = '{end}'")));
    it.running.apply(&policy("2026-11-20T10:00:00Z"), None, 1).unwrap();
    it.step(2 + HOUR);
    assert_eq!((it.web.asked(), it.has("192.0.2.1")), (vec![], Some(0)));
    it.running.apply(&policy("2026-11-20T12:00:00Z"), None, 3 + HOUR).unwrap();
    assert_eq!((it.web.asked().len(), it.has("192.0.2.1")), (1, Some(1)));
    it.step(2 * HOUR);
    it.web.asked();
    it.step(4 * HOUR);
    assert_eq!((it.web.asked(), it.has("192.0.2.1"), it.troubles()), (vec![], Some(0), String::new()));
}

/// The clock of the copies on disk is the machine's, and that of the daemon is the test's: a time that is long over on the machine makes every copy due.
const HOUR: u32 = 3_600;

#[test]
fn what_a_command_prints_is_a_list_and_what_fails_leaves_the_last_good_one() {
    let it = Fetching::new();
    let policy = format!("{}{}", usual(), listed("feed", "broken = 'skip'"));
    it.web.says("feed", Err("`feed` failed (exit status: 7): no route"));
    let why = it.running.apply(&policy, None, 1).unwrap_err();
    assert!(why.contains("the list `feed`: `feed` failed (exit status: 7): no route"), "{why}");
    assert_eq!(it.has("192.0.2.66"), None, "a part of a list is none");
    it.web.says("feed", Ok("192.0.2.1\n?\n"));
    it.running.apply(&policy, None, 2).unwrap();
    assert_eq!((it.has("192.0.2.1"), it.has("192.0.2.2")), (Some(1), Some(0)));
    // From here on by the clock. The copy is from the future, or the past, as the machine has it: the first step fetches or does not.
    it.step(3);
    it.web.asked();
    let first = it.generation();
    it.step(3 + HOUR);
    assert_eq!((it.web.asked().len(), it.generation()), (1, first), "what says the same changes nothing");
    it.step(4 + HOUR);
    assert_eq!(it.web.asked(), [""; 0], "not yet");
    it.web.says("feed", Ok("192.0.2.2\n?\n?\n"));
    it.step(3 + 2 * HOUR);
    assert_eq!((it.has("192.0.2.1"), it.has("192.0.2.2"), it.generation()), (Some(0), Some(1), first + 1));
    let list = &it.running.ask("GET", "/v1/lists", "").1["lists"][0];
    assert_eq!(
        (&list["broken_lines"], &list["command"], &list["file"]),
        (&json!(2), &json!("feed"), &Value::Null)
    );
    let mut now = 3 + 2 * HOUR;
    // Each is tried again five minutes later, and counted.
    for (count, (broken, words)) in (1..).zip([
        (Err("`feed` took longer than 300 s and was ended"), "took longer than 300 s"),
        (Ok(""), "what `feed` printed nothing is on it"),
        (Ok("<html>\n"), "what `feed` printed 1 of 1 lines cannot be read"),
        (Ok("a\0b"), "what `feed` printed is no text"),
    ]) {
        it.web.says("feed", broken);
        now += if count == 1 { HOUR } else { 300 };
        it.step(now);
        assert_eq!(it.web.asked().len(), if count == 1 { 2 } else { 1 }, "{words}");
        assert!(
            it.troubles().contains("could not be fetched, and stays as it was")
                && it.troubles().contains(words),
            "{words}: {}",
            it.troubles()
        );
        assert_eq!(
            (it.has("192.0.2.2"), it.has("192.0.2.66"), it.generation()),
            (Some(1), Some(0), first + 1),
            "{words}"
        );
        assert_eq!(it.running.ask("GET", "/v1/lists", "").1["lists"][0]["failures"], json!(count), "{words}");
        it.step(now + 1);
        assert_eq!(
            (it.web.asked().len(), it.logged(" trouble: ", words)),
            (0, 1),
            "{words}: reported once, and not tried at once"
        );
    }
    assert!(it.running.command("lists").1.contains("4 failures"), "{}", it.running.command("lists").1);
    it.web.says("feed", Ok("192.0.2.3\n"));
    it.step(now + 300);
    assert_eq!((it.has("192.0.2.2"), it.has("192.0.2.3"), it.generation()), (Some(0), Some(1), first + 2));
    assert!(
        it.troubles().is_empty() && it.logged(" over: ", "could not be fetched") == 4,
        "{}",
        it.running.log()
    );
}

/// Without a network, and with a copy that is damaged.
#[test]
fn a_restart_comes_up_with_what_was_fetched_last() {
    let it = Fetching::new();
    let policy = format!("{}{}", usual(), listed("feed", ""));
    it.web.says("feed", Ok("192.0.2.1\n"));
    it.running.apply(&policy, None, 1).unwrap();
    let state = Arc::clone(&it.state);
    drop(it);
    // The clock was put back: the copy is of tomorrow, and no list is young for it.
    let it = Fetching::again(Arc::clone(&state), "2020-01-01T00:00:00Z");
    it.web.says("feed", Err("`feed` failed (exit status: 6)"));
    it.running.apply(&policy, None, 1).unwrap();
    assert_eq!((it.has("192.0.2.1"), it.web.asked().len()), (Some(1), 0));
    it.step(2);
    assert_eq!((it.has("192.0.2.1"), it.web.asked().len()), (Some(1), 1), "it is old by now");
    assert!(it.troubles().contains("exit status: 6"), "{}", it.troubles());
    drop(it);
    let copies = || fs::read_dir(state.path().join("lists")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(copies().count(), 1, "what was fetched and not read is gone");
    fs::write(copies().next().unwrap(), "damaged").unwrap();
    let it = Fetching::again(Arc::clone(&state), "2026-11-20T10:00:00Z");
    it.web.says("feed", Err("`feed` failed (exit status: 6)"));
    assert!(it.running.apply(&policy, None, 1).unwrap_err().contains("exit status: 6"));
    it.web.says("feed", Ok("192.0.2.5\n"));
    it.running.apply(&policy, None, 2).unwrap();
    assert_eq!(it.has("192.0.2.5"), Some(1));
}

/// One that fails each time keeps no other from its turn, and a file beside them is read as ever.
#[test]
fn several_lists_are_fetched_in_turns() {
    let it = Fetching::new();
    for name in ["aa", "bb"] {
        it.web.says(name, Ok("192.0.2.1\n"));
    }
    it.running.file("bad.txt", "192.0.2.9\n");
    let file = "[lists.cc]\nfile = 'bad.txt'\nblock = 'both'\nrefresh = '10s'\n";
    let policy = format!("{}{}{}{file}", usual(), listed("aa", ""), listed("bb", "").replace("1h", "10min"));
    it.running.apply(&policy, None, 1).unwrap();
    it.step(2);
    it.step(2 + HOUR);
    it.web.asked();
    it.web.says("aa", Err("`aa` took longer than 300 s and was ended"));
    it.web.says("bb", Ok("192.0.2.2\n"));
    it.running.file("bad.txt", "192.0.2.8\n");
    it.step(2 + 2 * HOUR);
    assert_eq!(it.web.asked(), ["bb", "aa"], "who is due longest comes first");
    let on = |last: u8| it.has(&format!("192.0.2.{last}"));
    assert_eq!([1, 2, 8, 9].map(on), [Some(1), Some(2), Some(4), Some(0)]);
}

/// A policy comes while a list is fetched for the one before: it has the newest copy in the end, however the two meet.
#[test]
fn what_was_fetched_for_another_policy_comes_into_force_as_well() {
    let it = Fetching::new();
    it.web.says("feed", Ok("192.0.2.1\n"));
    let policy = format!("{}{}", usual(), listed("feed", ""));
    it.running.apply(&policy, None, 1).unwrap();
    it.step(2);
    it.step(2 + HOUR);
    it.web.says("feed", Ok("192.0.2.2\n"));
    // Fetched, and not read yet.
    assert!(it.running.daemon.fetch_lists(it.running.at(2 + 2 * HOUR)));
    it.running.apply(&format!("{policy}# another\n"), None, 3 + 2 * HOUR).unwrap();
    assert_eq!(it.has("192.0.2.2"), Some(1), "the copy is new by now");
    // And the other way round: a copy that changes behind the back of the daemon.
    let other = Fetching::again(Arc::clone(&it.state), "2020-01-01T00:00:00Z");
    other.web.says("feed", Ok("192.0.2.3\n"));
    other.running.apply(&policy, None, 1).unwrap();
    other.step(2);
    other.step(12);
    it.web.says("feed", Err("`feed` failed (exit status: 6)"));
    it.step(3 + 2 * HOUR + 20);
    it.step(3 + 2 * HOUR + 40);
    assert_eq!((other.has("192.0.2.3"), it.has("192.0.2.3")), (Some(1), Some(1)));
}

/// Ends are kept in the copy: no command is run for them.
#[test]
fn entries_of_a_fetched_list_end_without_fetching_it() {
    let it = Fetching::new();
    it.web.says("feed", Ok("192.0.2.1\n192.0.2.2 until 2026-11-20T10:00:30Z\n"));
    it.running.apply(&format!("{}{}", usual(), listed("feed", "")), None, 1).unwrap();
    it.web.says("feed", Err("`feed` failed (exit status: 6)"));
    it.web.asked();
    assert!(it.running.daemon.refresh_lists(it.running.at(29)));
    assert_eq!(it.has("192.0.2.2"), Some(1));
    assert!(it.running.daemon.refresh_lists(it.running.at(30)));
    assert_eq!((it.has("192.0.2.1"), it.has("192.0.2.2"), it.web.asked().len()), (Some(1), Some(0), 0));
}

/// A copy is deleted or damaged, and its command fails: it is run at once, and then as often as any that fails, not at each look at the copy.
#[test]
fn a_list_whose_copy_is_lost_is_fetched_at_once_and_then_in_its_time() {
    for damage in [None, Some("damaged")] {
        let it = Fetching::new();
        it.web.says("feed", Ok("192.0.2.1\n"));
        it.running.apply(&format!("{}{}", usual(), listed("feed", "")), None, 1).unwrap();
        it.step(2);
        it.step(2 + HOUR);
        it.web.asked();
        let copy = fs::read_dir(it.state.path().join("lists")).unwrap().next().unwrap().unwrap().path();
        match damage {
            None => fs::remove_file(copy).unwrap(),
            Some(text) => fs::write(copy, text).unwrap(),
        }
        it.web.says("feed", Err("`feed` failed (exit status: 7)"));
        (0..30).for_each(|look| it.step(20 + HOUR + 10 * look));
        assert_eq!((it.web.asked().len(), it.has("192.0.2.1")), (1, Some(1)), "{damage:?}");
        assert!(it.troubles().contains("could not be read again"), "{damage:?}: {}", it.troubles());
        it.web.says("feed", Ok("192.0.2.7\n"));
        it.step(20 + HOUR + 400);
        assert_eq!((it.web.asked().len(), it.has("192.0.2.7")), (1, Some(1)), "{damage:?}");
        it.step(20 + HOUR + 410);
        assert_eq!(it.troubles(), "", "{damage:?}");
    }
}

/// Schedules, the end of what nobody confirms, and `rampart down` wait for no server of lists.
#[test]
fn a_policy_whose_list_takes_long_to_fetch_keeps_nobody_waiting() {
    let it = Fetching::new();
    it.web.says("feed", Ok("192.0.2.1\n"));
    let policy = format!("{}{}", usual(), listed("feed", ""));
    std::thread::scope(|scope| {
        let held = it.web.hold.lock().unwrap();
        let applying = scope.spawn(|| it.running.apply(&policy, None, 1));
        let deadline = Instant::now() + Duration::from_secs(60);
        while it.web.asked.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "nothing is fetched");
            std::thread::yield_now();
        }
        assert!(it.running.daemon.turn.try_lock().is_ok() && it.running.daemon.running.try_lock().is_ok());
        drop(held);
        applying.join().unwrap().unwrap();
    });
    assert_eq!((it.has("192.0.2.1"), it.web.asked()), (Some(1), vec!["feed".to_owned()]));
}

#[test]
fn without_somebody_who_fetches_a_list_is_refused() {
    let running = Running::new();
    let why = running.apply(&format!("{}{}", usual(), listed("feed", "")), None, 1).unwrap_err();
    assert!(why.contains("the list `feed`: "), "{why}");
}
