//! Databases of other versions and other programs, and files that are no database.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use toolgate_session::{SessionError, SessionStore};

use crate::support::{Place, assistant, id, new, result, results, user, wait, waiting};

async fn connect(file: &Path) -> SqliteConnection {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    SqliteConnectOptions::new().filename(file).create_if_missing(true).connect().await.unwrap()
}

async fn run(connection: &mut SqliteConnection, statements: &'static str) {
    sqlx::raw_sql(statements).execute(connection).await.unwrap();
}

/// A dump of each released version: the statements that created it, and its content. Never changes when the tables do.
const VERSIONS: [&str; 2] = [include_str!("data/version-1.sql"), include_str!("data/version-2.sql")];

#[test]
fn databases_of_every_version_open_with_what_was_in_them() {
    for (index, statements) in VERSIONS.into_iter().enumerate() {
        wait(async {
            let place = Place::new();
            run(&mut connect(&place.file()).await, statements).await;
            let store = place.open().await;
            let mut session = store.open_session(&id("old")).await.unwrap();
            let shown = [user("the first three"), user("go on"), assistant("I do", &["b", "c"])];
            assert_eq!(session.messages(), shown, "version {}", index + 1);
            assert_eq!(waiting(&session), ["c"]);
            session.add_result(result("c", "now")).await.unwrap();
            session.append(user("thanks")).await.unwrap();
            drop(session);
            assert_eq!(store.transcript(&id("old")).await.unwrap().entries.len(), 8);
        });
    }
}

/// Fails if the tables change and no dump of the previous version is kept.
#[test]
fn there_is_a_database_of_every_version() {
    wait(async {
        let place = Place::new();
        place.open().await;
        let mut connection = connect(&place.file()).await;
        let version: i64 =
            sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut connection).await.unwrap();
        assert_eq!(usize::try_from(version).unwrap(), VERSIONS.len());
    });
}

/// The tables that this version creates, compared with the newest dump.
#[test]
fn the_tables_are_those_of_the_newest_version() {
    async fn tables(connection: &mut SqliteConnection) -> Vec<String> {
        let query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let tables: Vec<String> = sqlx::query_scalar(query).fetch_all(connection).await.unwrap();
        let without_remarks = |line: &str| line.split("--").next().unwrap_or("").trim().to_owned();
        tables.iter().map(|table| table.lines().map(without_remarks).collect::<Vec<_>>().join(" ")).collect()
    }
    wait(async {
        let (made, kept) = (Place::new(), Place::new());
        made.open().await;
        run(&mut connect(&kept.file()).await, VERSIONS[VERSIONS.len() - 1]).await;
        assert_eq!(
            tables(&mut connect(&made.file()).await).await,
            tables(&mut connect(&kept.file()).await).await
        );
    });
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let cases = [
        ("newer", "PRAGMA application_id = 1416578913; PRAGMA user_version = 99;", "database_newer"),
        ("of another program", "CREATE TABLE recipes (name TEXT);", "database_foreign"),
        ("of a named program", "PRAGMA application_id = 7;", "database_foreign"),
        (
            "of a negative version",
            "PRAGMA application_id = 1416578913; PRAGMA user_version = -1;",
            "database_newer",
        ),
        ("of a version alone", "PRAGMA user_version = 1;", "database_foreign"),
    ];
    for (case, statements, code) in cases {
        wait(async {
            let place = Place::new();
            run(&mut connect(&place.file()).await, statements).await;
            let before = std::fs::read(place.file()).unwrap();
            let error = SessionStore::open(&place.file()).await.unwrap_err();
            assert_eq!(error.code(), code, "{case}: {error}");
            assert_eq!(std::fs::read(place.file()).unwrap(), before, "{case}");
        });
    }
}

#[test]
fn damage_is_named_with_a_way_out() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut session = store.create(new("s")).await.unwrap();
        for number in 0..200 {
            session.append(user(&format!("{number} {}", "x".repeat(500)))).await.unwrap();
        }
        drop((session, store));
        // Checkpoint the WAL into the file before damaging it.
        run(&mut connect(&place.file()).await, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        let whole = std::fs::read(place.file()).unwrap();
        for (what, bytes) in [
            ("another beginning", [b"no database at all".as_slice(), &whole[18..]].concat()),
            ("text", b"hello, this is not a database, and long enough to be looked at".repeat(100)),
            (
                "a page of noise in the middle",
                [&whole[..4096], &[0xa5; 8192], &whole[4096 + 8192..]].concat(),
            ),
        ] {
            let place = Place::new();
            std::fs::create_dir(place.folder()).unwrap();
            std::fs::write(place.file(), bytes).unwrap();
            let opened = match SessionStore::open(&place.file()).await {
                Ok(store) => store.open_session(&id("s")).await.map(drop),
                Err(error) => Err(error),
            };
            let error = opened.unwrap_err();
            assert_eq!(error.code(), "database_corrupt", "{what}: {error}");
            assert!(error.to_string().contains("sessions.db"), "{error}");
            let way_out = error.help();
            let command = way_out.split_once(": ").unwrap().1.to_owned();
            let done = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(done.success(), "{command}");
            place.open().await.create(new("s")).await.unwrap();
        }
    });
}

#[test]
fn a_damaged_session_does_not_harm_another() {
    wait(async {
        for (damage, problem) in [
            ("UPDATE messages SET body = '{' WHERE session = 1 AND position = 1", "at message 1"),
            ("DELETE FROM messages WHERE session = 1 AND position = 1", "at message 1: it is not there"),
            ("DELETE FROM results WHERE session = 1", "at message 2: it is not there"),
            ("UPDATE results SET position = 4 WHERE session = 1", "at message 2: it is not there"),
            (
                "UPDATE results SET body = replace(body, '\"a\"', '\"z\"') WHERE session = 1",
                "no call `z` waits",
            ),
            (
                "INSERT INTO results SELECT session, 9, 0, at_ms, body FROM results WHERE session = 1",
                "a result has no call",
            ),
        ] {
            let place = Place::new();
            let store = place.open().await;
            for name in ["bad", "good"] {
                let mut session = store.create(new(name)).await.unwrap();
                for message in [user("x"), assistant("", &["a"]), results(&[result("a", "")]), user("y")] {
                    session.append(message).await.unwrap();
                }
            }
            run(&mut connect(&place.file()).await, damage).await;
            for error in [
                store.open_session(&id("bad")).await.map(drop).unwrap_err(),
                store.transcript(&id("bad")).await.map(drop).unwrap_err(),
            ] {
                assert!(matches!(error, SessionError::Damaged { .. }), "{damage}: {error}");
                assert!(error.to_string().contains(problem), "{damage}: {error}");
            }
            assert_eq!(store.open_session(&id("good")).await.unwrap().messages().len(), 4, "{damage}");
            store.delete(&id("bad")).await.unwrap();
        }
    });
}
