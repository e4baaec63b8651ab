-- Conversations. What was said is kept as JSON, in the words of the crate `llm`; nobody searches in it here.

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, so that nothing of a deleted one comes back under another
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    agent TEXT,
    model TEXT NOT NULL,     -- PROVIDER/NAME
    profile TEXT NOT NULL,
    workspace BLOB NOT NULL, -- a path of the system, which may not be UTF-8
    created_ms INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0
, owner TEXT, trust TEXT, events INTEGER NOT NULL DEFAULT 0) STRICT;

-- What people and models said. The results of a message's calls stand at the position after it, and that one is left out here.
CREATE TABLE messages (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, position)
) STRICT;

-- One row for each call that is answered. The key is why no call is answered twice.
CREATE TABLE results (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    call INTEGER NOT NULL,   -- which of the message's calls, from nought
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, position, call)
) STRICT;

-- Messages that a model is shown instead of the first so many. The newest counts.
CREATE TABLE fronts (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    replaced INTEGER NOT NULL,
    position INTEGER NOT NULL, -- how many messages there were when it was made
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX fronts_of_session ON fronts (session, number);

PRAGMA application_id = 1416578913; -- "ToGa"
PRAGMA user_version = 2;

PRAGMA journal_mode = WAL;
INSERT INTO sessions VALUES (1, 'old', 'what it says', 'reviewer', 'anthropic/claude', 'native', CAST('/work' AS BLOB), 1763190000000, 10, 20, 5, NULL, 'supervised', 40);
INSERT INTO messages VALUES
    (1, 0, 1763190000001, '{"role":"user","text":"read it"}'),
    (1, 1, 1763190000002, '{"role":"assistant","parts":[{"type":"thinking","text":"hm","seal":{"wire":"anthropic","value":{"signature":"xyz"}}},{"type":"call","id":"a","name":"read_file","arguments":"{\"path\": \"a\"}"}],"model":{"provider":"anthropic","name":"claude"}}'),
    (1, 3, 1763190000004, '{"role":"user","text":"go on"}'),
    (1, 4, 1763190000006, '{"role":"assistant","parts":[{"type":"text","text":"I do"},{"type":"call","id":"b","name":"read_file","arguments":"{}"},{"type":"call","id":"c","name":"read_file","arguments":"{}"}],"model":{"provider":"scripted","name":"demo"}}');
INSERT INTO results VALUES
    (1, 2, 0, 1763190000003, '{"call":"a","name":"read_file","text":"content","is_error":false}'),
    (1, 5, 0, 1763190000007, '{"call":"b","name":"read_file","text":"done","is_error":false}');
INSERT INTO fronts VALUES (1, 1, 3, 4, 1763190000005, '{"role":"user","text":"the first three"}');
