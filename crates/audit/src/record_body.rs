//! Encodes the part of a record that does not depend on its position in the chain.
//!
//! One is encoded for every call, so the only allocation is the output buffer, and text that needs no escaping is copied. [`crate::Record`] defines
//! the fields and their order.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use toolgate_types::{CallId, Caller, Decision, Repair, Sha256, StateKey, ToolClass};

use crate::digest::{args_digest, output_digest};
use crate::entry::{AuditEntry, Denial, ResponseSummary};
use crate::line::to_json;
use crate::record::{RecordedCaller, RecordedGap, plain_or_sealed};
use crate::truncate::{truncate_list, truncate_name, truncate_reason};
use crate::{AuditError, CallDetails, DetailsKey, RecordedFlow};

/// Enough for a successful call of a caller with few permissions.
const INITIAL_CAPACITY_BYTES: usize = 1024;
/// Bytes compared by one SIMD instruction.
const LANES: usize = 16;
/// Below this, a number of microseconds written as milliseconds is exactly the decimal fraction that JSON shows: 15 digits survive `f64`.
const MAX_EXACT_MICROSECONDS: u64 = 1_000_000_000_000_000;

/// The part of a record that is known before its position in the chain.
pub(crate) struct RecordBody<'a> {
    pub(crate) call: CallId,
    pub(crate) client_call_id: Option<&'a str>,
    pub(crate) caller: BodyCaller<'a>,
    pub(crate) tool: &'a str,
    pub(crate) class: Option<ToolClass>,
    pub(crate) version: Option<&'a str>,
    pub(crate) args_hash: Sha256,
    pub(crate) changed_from: Option<Sha256>,
    pub(crate) escalation: &'a [String],
    pub(crate) repairs: &'a [Repair],
    pub(crate) grant: Option<&'a str>,
    pub(crate) denial: Option<Denial<'a>>,
    pub(crate) response: Option<ResponseSummary<'a>>,
    pub(crate) details: Option<&'a CallDetails>,
    /// Instead of `details`, where they are encrypted.
    pub(crate) sealed_details: Option<Cow<'a, str>>,
    pub(crate) flow: Option<&'a RecordedFlow>,
    pub(crate) gap: Option<RecordedGap>,
    pub(crate) duration: Duration,
    pub(crate) waited: Duration,
}

/// The caller.
pub(crate) struct BodyCaller<'a> {
    sub: &'a str,
    permissions: BodyPermissions<'a>,
    agent: Option<&'a str>,
    session: &'a str,
    run: Option<&'a str>,
}

enum BodyPermissions<'a> {
    Granted(&'a BTreeSet<String>),
    Recorded(&'a [String]),
}

impl<'a> RecordBody<'a> {
    /// From an entry; its digests are keyed with the first key, and its details encrypted with the second, if there is one.
    pub(crate) fn new(
        entry: &AuditEntry<'a>,
        (key, details_key): (&StateKey, Option<&DetailsKey>),
    ) -> Result<Self, AuditError> {
        let AuditEntry {
            call,
            client_call_id,
            tool,
            class,
            version,
            args_hash,
            changed_from,
            escalation,
            repairs,
            grant,
            ..
        } = *entry;
        let AuditEntry { denial, response, details, flow, duration, waited, .. } = *entry;
        let details = details.filter(|details| !details.is_empty());
        let (details, sealed) = plain_or_sealed(call, details, details_key)?;
        let (caller, args_hash, gap) = (entry.caller.into(), args_digest(key, args_hash), None);
        let response = response.map(|response| ResponseSummary {
            output_hash: output_digest(key, response.output_hash),
            ..response
        });
        Ok(Self {
            call,
            client_call_id,
            caller,
            tool,
            class,
            version,
            args_hash,
            changed_from: changed_from.map(|digest| args_digest(key, digest)),
            escalation,
            repairs,
            grant,
            denial,
            response,
            details,
            sealed_details: sealed.map(Cow::Owned),
            flow,
            gap,
            duration,
            waited,
        })
    }
}

impl<'a> From<&'a Caller> for BodyCaller<'a> {
    fn from(caller: &'a Caller) -> Self {
        Self {
            sub: &caller.subject,
            permissions: BodyPermissions::Granted(&caller.permissions),
            agent: caller.agent.as_ref().map(|agent| agent.as_str()),
            session: caller.session.as_str(),
            run: caller.run.as_ref().map(|run| run.as_str()),
        }
    }
}

impl<'a> From<&'a RecordedCaller> for BodyCaller<'a> {
    fn from(caller: &'a RecordedCaller) -> Self {
        Self {
            sub: &caller.sub,
            permissions: BodyPermissions::Recorded(&caller.permissions),
            agent: caller.agent.as_deref(),
            session: &caller.session,
            run: caller.run.as_deref(),
        }
    }
}

impl RecordBody<'_> {
    /// Encodes the fields from the call's id to the durations, without the surrounding braces.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, AuditError> {
        let mut json = RecordEncoder(Vec::with_capacity(INITIAL_CAPACITY_BYTES));
        json.put(b"\"traceId\":\"");
        json.put(&self.call.to_hyphenated());
        self.caller.encode_into(&mut json)?;
        json.put(b"\"},\"tool\":{\"name\":\"");
        json.put_text(&truncate_name(self.tool))?;
        if let Some(class) = self.class {
            json.put(b"\",\"classification\":\"");
            json.put(class.as_str().as_bytes());
        }
        if let Some(version) = self.version {
            json.put(b"\",\"version\":\"");
            json.put_text(&truncate_name(version))?;
        }
        json.put(b"\"},\"request\":{\"argsHash\":\"");
        json.put(&self.args_hash.hex_digits());
        if let Some(digest) = self.changed_from {
            json.put(b"\",\"changedFrom\":\"");
            json.put(&digest.hex_digits());
        }
        if let Some(id) = self.client_call_id {
            json.put(b"\",\"clientCallId\":\"");
            json.put_text(&truncate_name(id))?;
        }
        json.put(b"\"");
        for (number, repair) in self.repairs.iter().enumerate() {
            json.put(if number == 0 { b",\"repairs\":[\"" } else { b"\",\"" });
            json.put(repair.as_str().as_bytes());
        }
        json.put(if self.repairs.is_empty() { b"" } else { b"\"]" });
        if !self.escalation.is_empty() {
            json.put(b",\"escalation\":[");
            json.put_list(self.escalation)?;
            json.put(b"]");
        }
        json.put(b"},\"decision\":\"");
        json.put(self.decision().as_str().as_bytes());
        json.put(b"\"");
        if let Some(grant) = self.grant {
            json.put(b",\"grant\":\"");
            json.put_text(&truncate_name(grant))?;
            json.put(b"\"");
        }
        if let Some(Denial { stage, code, reason, count }) = self.denial {
            json.put(b",\"denial\":{\"stage\":\"");
            json.put(stage.as_str().as_bytes());
            json.put(b"\",\"code\":\"");
            json.put(code.as_str().as_bytes());
            json.put(b"\",\"reason\":\"");
            json.put_text(&truncate_reason(reason))?;
            json.put(b"\"");
            if count != 1 {
                json.put(b",\"count\":");
                json.put_number(count);
            }
            json.put(b"}");
        }
        if let Some(ResponseSummary { redacted_fields, output_hash, output_bytes }) = self.response {
            json.put(b",\"response\":{\"redactedFields\":[");
            json.put_list(redacted_fields)?;
            json.put(b"],\"outputHash\":\"");
            json.put(&output_hash.hex_digits());
            json.put(b"\",\"outputBytes\":");
            json.put_number(output_bytes);
            json.put(b"}");
        }
        if let Some(details) = self.details.filter(|details| !details.is_empty()) {
            json.put_details(details)?;
        }
        if let Some(sealed) = &self.sealed_details {
            json.put(b",\"sealedDetails\":\"");
            json.put_text(sealed)?;
            json.put(b"\"");
        }
        if let Some(flow) = self.flow {
            json.put_flow(flow)?;
        }
        if let Some(gap) = &self.gap {
            json.put(b",\"gap\":");
            json.put(&to_json(gap)?);
        }
        json.put(b",\"duration\":");
        json.put_milliseconds(self.duration)?;
        if !self.waited.is_zero() {
            json.put(b",\"waitedMs\":");
            json.put_milliseconds(self.waited)?;
        }
        Ok(json.0)
    }

    fn decision(&self) -> Decision {
        match self.denial {
            None => Decision::Allowed,
            Some(denial) if denial.code.is_denial() => Decision::Denied,
            Some(_) => Decision::Error,
        }
    }
}

impl BodyCaller<'_> {
    /// Encodes the caller, from its opening quote to its last string.
    fn encode_into(&self, json: &mut RecordEncoder) -> Result<(), AuditError> {
        json.put(b"\",\"caller\":{\"sub\":\"");
        json.put_text(&truncate_name(self.sub))?;
        json.put(b"\",\"permissions\":[");
        match self.permissions {
            BodyPermissions::Granted(permissions) => json.put_list(permissions)?,
            BodyPermissions::Recorded(permissions) => json.put_list(permissions)?,
        }
        json.put(b"]");
        if let Some(agent) = self.agent {
            json.put(b",\"agent\":\"");
            json.put_text(agent)?;
            json.put(b"\"");
        }
        json.put(b",\"session\":\"");
        json.put_text(self.session)?;
        if let Some(run) = self.run {
            json.put(b"\",\"run\":\"");
            json.put_text(run)?;
        }
        Ok(())
    }
}

/// The bytes of a record being encoded. Exactly these are hashed, and untrusted text in them is escaped. The quotes around a value are written with
/// its neighbours.
struct RecordEncoder(Vec<u8>);

impl RecordEncoder {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Untrusted text.
    fn put_text(&mut self, text: &str) -> Result<(), AuditError> {
        if needs_no_escape(text) {
            self.put(text.as_bytes());
        } else if let [_, escaped @ .., _] = to_json(&text)?.as_slice() {
            self.put(escaped);
        }
        Ok(())
    }

    /// Labels and why was asked. Every call of a session with labels has them.
    fn put_flow(&mut self, flow: &RecordedFlow) -> Result<(), AuditError> {
        for (name, labels) in
            [(&b",\"flow\":{\"before\":["[..], &flow.before), (&b"],\"after\":["[..], &flow.after)]
        {
            self.put(name);
            for (number, label) in labels.iter().enumerate() {
                self.put(if number == 0 { b"\"" } else { b",\"" });
                self.put_text(label)?;
                self.put(b"\"");
            }
        }
        self.put(b"]");
        if let Some(asked) = &flow.asked {
            self.put(b",\"asked\":\"");
            self.put_text(asked)?;
            self.put(b"\"");
        }
        self.put(b"}");
        Ok(())
    }

    fn put_list<'a>(
        &mut self,
        entries: impl IntoIterator<Item = &'a String, IntoIter: ExactSizeIterator>,
    ) -> Result<(), AuditError> {
        let entries = entries.into_iter();
        if entries.len() == 0 {
            return Ok(());
        }
        let mut before: &[u8] = b"\"";
        for entry in truncate_list(entries) {
            self.put(before);
            self.put_text(&entry)?;
            self.put(b"\"");
            before = b",\"";
        }
        Ok(())
    }

    fn put_details(&mut self, details: &CallDetails) -> Result<(), AuditError> {
        let CallDetails {
            paths,
            created,
            modified,
            deleted,
            moved,
            hosts,
            refused_hosts,
            questions,
            command,
        } = details;
        let mut before: &[u8] = b",\"details\":{\"";
        let lists: [(&[u8], &Vec<String>); 8] = [
            (b"paths", paths),
            (b"created", created),
            (b"modified", modified),
            (b"deleted", deleted),
            (b"moved", moved),
            (b"hosts", hosts),
            (b"refusedHosts", refused_hosts),
            (b"questions", questions),
        ];
        for (name, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            for part in [before, name, b"\":["] {
                self.put(part);
            }
            self.put_list(names)?;
            self.put(b"]");
            before = b",\"";
        }
        if let Some(command) = command {
            self.put(before);
            self.put(b"command\":\"");
            self.put_text(&truncate_reason(command))?;
            self.put(b"\"");
        }
        self.put(b"}");
        Ok(())
    }

    fn put_number(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Microseconds, written as milliseconds.
    fn put_milliseconds(&mut self, duration: Duration) -> Result<(), AuditError> {
        let microseconds = duration.as_micros();
        match u64::try_from(microseconds) {
            Ok(exact) if exact < MAX_EXACT_MICROSECONDS => {
                self.put_number(exact / 1000);
                let digit = |number: u64| b'0' + (number % 10) as u8;
                let fraction = [b'.', digit(exact / 100), digit(exact / 10), digit(exact)];
                let zeroes = fraction.iter().skip(2).rev().take_while(|digit| **digit == b'0').count();
                self.put(fraction.get(..fraction.len() - zeroes).unwrap_or_default());
            }
            _ => self.put(&to_json(&(microseconds as f64 / 1000.0))?),
        }
        Ok(())
    }
}

/// Whether a string can be copied into JSON unescaped.
fn needs_no_escape(text: &str) -> bool {
    let (blocks, rest) = text.as_bytes().as_chunks();
    blocks.iter().all(lanes_need_no_escape) && (rest.is_empty() || lanes_need_no_escape(&padded(rest)))
}

/// The remainder, padded with spaces.
fn padded(rest: &[u8]) -> [u8; LANES] {
    let mut block = [b' '; LANES];
    if let Some(beginning) = block.get_mut(..rest.len()) {
        beginning.copy_from_slice(rest);
    }
    block
}

/// One block, checked without branches so that the compiler can vectorise it.
fn lanes_need_no_escape(bytes: &[u8; LANES]) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\');
    bytes.iter().fold(true, |plain, byte| plain & is_plain(*byte))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use toolgate_types::{ErrorCode, Stage, Trust};

    use super::*;
    use crate::Record;
    use crate::line::{append_chained, genesis};

    const STAGES: [Stage; 7] = [
        Stage::Registry,
        Stage::Auth,
        Stage::Permission,
        Stage::Validation,
        Stage::Approval,
        Stage::Execution,
        Stage::Output,
    ];

    /// Plain text, text with one special character, and arbitrary text.
    fn text() -> impl Strategy<Value = String> {
        let special =
            select(vec!["\"", "\\", "\n", "\0", "\u{1f}", " ", "~", "\u{7f}", "é", "\u{202e}", "\u{e0041}"]);
        prop_oneof![
            "[ -~]{0,40}",
            ("[a-z]{0,20}", special, "[a-z]{0,20}")
                .prop_map(|(before, special, after)| before + special + &after),
            ".{0,300}",
            vec(any::<char>(), 0..40).prop_map(|characters| characters.into_iter().collect::<String>()),
        ]
    }

    /// A few strings, or more than the limit.
    fn texts() -> impl Strategy<Value = Vec<String>> {
        prop_oneof![9 => vec(text(), 0..4), 1 => vec("[a-z]{1,8}", 62..67)]
    }

    fn caller() -> impl Strategy<Value = Caller> {
        let name = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}";
        (text(), texts(), option::of(name), name, option::of(name)).prop_map(
            |(subject, permissions, agent, session, run)| Caller {
                subject,
                permissions: permissions.into_iter().collect(),
                agent: agent.map(|agent| agent.parse().unwrap()),
                session: session.parse().unwrap(),
                run: run.map(|run| run.parse().unwrap()),
                trust: Trust::Guided,
            },
        )
    }

    fn duration() -> impl Strategy<Value = Duration> {
        let around = |limit: u64| limit - 3000..limit + 3000;
        let microseconds = prop_oneof![
            0..5000u64,
            any::<u64>(),
            around(MAX_EXACT_MICROSECONDS),
            (0..1u64 << 40).prop_map(|n| n * 10)
        ];
        prop_oneof![
            microseconds.prop_map(Duration::from_micros),
            any::<u32>().prop_map(|n| Duration::from_nanos(n.into())),
            Just(Duration::MAX),
        ]
    }

    fn details() -> impl Strategy<Value = CallDetails> {
        let changes = (texts(), texts(), texts(), texts());
        (texts(), changes, texts(), texts(), texts(), option::of(text())).prop_map(
            |(paths, (created, modified, deleted, moved), hosts, refused_hosts, questions, command)| {
                CallDetails {
                    paths,
                    created,
                    modified,
                    deleted,
                    moved,
                    hosts,
                    refused_hosts,
                    questions,
                    command,
                }
            },
        )
    }

    fn owned(text: &str) -> String {
        truncate_name(text).into_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The encoded bytes parse back to the input and equal the record's own serialisation.
        #[test]
        fn bytes_are_those_of_the_record(
            caller in caller(),
            (tool, client_call_id, version) in (text(), option::of(text()), option::of(text())),
            class in option::of(select(vec![ToolClass::Read, ToolClass::Write, ToolClass::Destructive])),
            denial in option::of((select(STAGES.to_vec()), select(ErrorCode::ALL), text(), 1..3u64)),
            response in option::of((texts(), any::<[u8; 32]>(), any::<u64>())),
            grant in option::of(text()),
            (duration, waited, args_hash) in (duration(), prop_oneof![Just(Duration::ZERO), duration()], any::<[u8; 32]>()),
            (changed_from, escalation, details) in (option::of(any::<[u8; 32]>()), texts(), option::of(details())),
            flow in option::of((texts(), texts(), option::of(text()))),
            repairs in subsequence(vec![Repair::Fence, Repair::SingleQuotes, Repair::MissingBrace], 0..=3),
        ) {
            let (call, args_hash) = (CallId::fresh(), Sha256::from(args_hash));
            let words = |words: Vec<String>| words.into_iter().map(Cow::Owned).collect();
            let flow = flow.map(|(before, after, asked)| RecordedFlow {
                before: words(before),
                after: words(after),
                asked,
            });
            let entry = AuditEntry {
                call,
                client_call_id: client_call_id.as_deref(),
                caller: &caller,
                tool: &tool,
                class,
                version: version.as_deref(),
                args_hash,
                changed_from: changed_from.map(Sha256::from),
                escalation: &escalation,
                repairs: &repairs,
                grant: grant.as_deref(),
                denial: denial.as_ref().map(|(stage, code, reason, count)| Denial { stage: *stage, code: *code, reason, count: *count }),
                response: response.as_ref().map(|(redacted_fields, output_hash, output_bytes)| ResponseSummary {
                    redacted_fields,
                    output_hash: (*output_hash).into(),
                    output_bytes: *output_bytes,
                }),
                details: details.as_ref(),
                flow: flow.as_ref(),
                duration,
                waited,
            };
            let (mut line, key) = (Vec::new(), StateKey::new([7; 32]));
            append_chained(&mut line, 7, genesis(), Timestamp::UNIX_EPOCH, &RecordBody::new(&entry, (&key, None)).unwrap().encode().unwrap());
            let mut record: Record = serde_json::from_slice(&line).unwrap();
            // Parsing may round the last digit of a very long duration; the encoded one must be exact.
            let millis = |time: Duration| time.as_micros() as f64 / 1000.0;
            record.duration = millis(duration);
            prop_assert_eq!(record.waited_ms.is_some(), !waited.is_zero());
            record.waited_ms = record.waited_ms.map(|_| millis(waited));
            let mut expected = to_json(&record).unwrap();
            expected.push(b'\n');
            prop_assert_eq!(String::from_utf8(line).unwrap(), String::from_utf8(expected).unwrap());

            prop_assert_eq!((record.trace_id, record.request.args_hash), (call, args_digest(&key, args_hash)));
            prop_assert_eq!(record.request.changed_from, changed_from.map(|digest| args_digest(&key, digest.into())));
            prop_assert_eq!(record.caller, RecordedCaller::from(&caller));
            prop_assert_eq!((record.tool.name, record.tool.classification), (owned(&tool), class));
            prop_assert_eq!(&record.request.escalation, &truncate_list(&escalation).map(|entry| entry.into_owned()).collect::<Vec<_>>());
            prop_assert_eq!(record.flow, flow);
            prop_assert_eq!(record.request.repairs, repairs);
            prop_assert_eq!(record.details, details.as_ref().filter(|details| !details.is_empty()).map(CallDetails::truncated));
            prop_assert_eq!(record.grant, grant.as_deref().map(owned));
            prop_assert_eq!(record.tool.version, version.as_deref().map(owned));
            prop_assert_eq!(record.request.client_call_id, client_call_id.as_deref().map(owned));
            let recorded = record.denial.map(|denial| (denial.stage, denial.code, denial.reason, denial.count));
            let wanted = denial.map(|(stage, code, reason, count)| (stage, code, truncate_reason(&reason).into_owned(), count));
            prop_assert_eq!(recorded, wanted);
            let recorded = record.response.map(|of| (of.redacted_fields, of.output_hash, of.output_bytes));
            let wanted = response.map(|(fields, hash, bytes)| {
                let hash = output_digest(&key, hash.into());
                (truncate_list(&fields).map(|field| field.into_owned()).collect(), hash, bytes)
            });
            prop_assert_eq!(recorded, wanted);
        }
    }
}
