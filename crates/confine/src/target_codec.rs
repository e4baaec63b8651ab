//! Encoding of targets and file identities in a baseline.

use toolgate_workspace::internals::{
    AutorunTarget, FileIdentity, ProtectedArtifactKind, RefusedSettings, TargetPurpose,
};

use crate::codec::Codec;

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

impl Codec for FileIdentity {
    fn encode(&self, out: &mut Vec<u8>) {
        ((self.device, self.inode), (self.changed, self.size)).encode(out);
        u8::from(self.is_directory).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let ((device, inode), (changed, size)) = Codec::decode(input)?;
        Some(Self { device, inode, changed, size, is_directory: u8::decode(input)? == 1 })
    }
}
