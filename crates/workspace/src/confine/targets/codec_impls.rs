//! Encoding of targets in a baseline, and their translation to another mount.

use std::path::{Path, PathBuf};

use super::super::codec::Codec;
use super::super::protected_artifact::ProtectedArtifactKind;
use super::{AutorunTarget, TargetPurpose};
use crate::git_config::RefusedSettings;

impl AutorunTarget {
    /// The path as configured.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// With places relative to another mount; `None` where it is not in that mount.
    pub(in super::super) fn map_places(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Option<Self> {
        let links = self.links.iter().filter_map(|(link, identity)| Some((place(link)?, *identity)));
        let leads_to =
            self.leads_to.as_ref().and_then(|(location, identity)| Some((place(location)?, *identity)));
        Some(Self { path: place(&self.path)?, links: links.collect(), leads_to, ..self.clone() })
    }
}

impl Codec for AutorunTarget {
    fn encode(&self, out: &mut Vec<u8>) {
        self.path.encode(out);
        let (purpose, refused) = match &self.purpose {
            TargetPurpose::Anything => (0, None),
            TargetPurpose::File => (1, None),
            TargetPurpose::Config(refused) => (2, refused.as_ref().map(|refused| refused.settings().clone())),
        };
        u8::encode(&purpose, out);
        refused.encode(out);
        self.kind.encode(out);
        self.links.encode(out);
        self.leads_to.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let place = Codec::decode(input)?;
        let (purpose, refused): (u8, Option<_>) = Codec::decode(input)?;
        let purpose = match purpose {
            0 => TargetPurpose::Anything,
            1 => TargetPurpose::File,
            2 => TargetPurpose::Config(refused.map(RefusedSettings::from_settings)),
            _ => return None,
        };
        let kind = ProtectedArtifactKind::decode(input)?;
        Some(Self {
            path: place,
            purpose,
            kind,
            links: Codec::decode(input)?,
            leads_to: Codec::decode(input)?,
        })
    }
}

impl Codec for ProtectedArtifactKind {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().as_bytes().to_vec().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let name: Vec<u8> = Codec::decode(input)?;
        Self::ALL.into_iter().find(|kind| kind.as_str().as_bytes() == name)
    }
}
