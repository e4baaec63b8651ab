-- Conversations over HTTP: whose they are, which trust was chosen for them, and how far their events are numbered.

ALTER TABLE sessions ADD COLUMN owner TEXT;                       -- NULL is the person at this machine; else the digest of a caller's identity
ALTER TABLE sessions ADD COLUMN trust TEXT;                       -- NULL where the default of the gate counts
ALTER TABLE sessions ADD COLUMN events INTEGER NOT NULL DEFAULT 0; -- numbers up to this one may have been given

PRAGMA user_version = 2;
