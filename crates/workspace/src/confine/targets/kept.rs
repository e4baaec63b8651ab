//! Targets in a baseline: written down, and as another mount sees them.

use std::path::{Path, PathBuf};

use super::super::codec::Codec;
use super::super::stray::StrayKind;
use super::{Purpose, Target};
use crate::git_config::Refused;

impl Target {
    /// Where it is named.
    pub(in super::super) fn place(&self) -> &Path {
        &self.place
    }

    /// The same for a mount whose places are others; `None` where it is not in that mount.
    pub(in super::super) fn moved(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Option<Self> {
        let links = self.links.iter().filter_map(|(link, identity)| Some((place(link)?, *identity)));
        let leads_to =
            self.leads_to.as_ref().and_then(|(location, identity)| Some((place(location)?, *identity)));
        Some(Self { place: place(&self.place)?, links: links.collect(), leads_to, ..self.clone() })
    }
}

impl Codec for Target {
    fn encode(&self, out: &mut Vec<u8>) {
        self.place.encode(out);
        let (purpose, refused) = match &self.purpose {
            Purpose::Anything => (0, None),
            Purpose::File => (1, None),
            Purpose::Config(refused) => (2, refused.as_ref().map(|refused| refused.settings().clone())),
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
            0 => Purpose::Anything,
            1 => Purpose::File,
            2 => Purpose::Config(refused.map(Refused::from_settings)),
            _ => return None,
        };
        let kind = StrayKind::decode(input)?;
        Some(Self { place, purpose, kind, links: Codec::decode(input)?, leads_to: Codec::decode(input)? })
    }
}

impl Codec for StrayKind {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().as_bytes().to_vec().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let name: Vec<u8> = Codec::decode(input)?;
        Self::ALL.into_iter().find(|kind| kind.as_str().as_bytes() == name)
    }
}
