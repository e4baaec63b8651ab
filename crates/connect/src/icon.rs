//! Icons of a server: small raster images that are part of a definition, and so are agreed to with it.
//!
//! An address is not passed on: fetching it would tell its host who looks, and what it shows could change after it was agreed to. SVG is not passed on
//! either: it is a document with scripts and links.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use toolgate_gate::ToolIcon;
use toolgate_types::Sha256;

/// The most icons of one definition.
const MAX_ICONS: usize = 4;

/// The largest icon.
const MAX_ICON_BYTES: usize = 16 << 10;

/// The most bytes of icons of one server. Those beyond are left out.
pub(crate) const MAX_SERVER_ICON_BYTES: usize = 512 << 10;

/// The longest text about sizes.
const MAX_SIZE_BYTES: usize = 20;

/// The media types that are passed on, with how their images begin.
const MEDIA_TYPES: [(&str, &[u8]); 4] = [
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
];

/// An icon of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionIcon {
    /// A `data:` URI of a raster image.
    pub src: String,
    /// Its sizes, such as `48x48`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The theme that it is for: `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

/// The icons that can be passed on.
pub(crate) fn usable_icons(icons: Option<Vec<rmcp::model::Icon>>) -> Vec<DefinitionIcon> {
    icons.unwrap_or_default().into_iter().filter_map(usable_icon).take(MAX_ICONS).collect()
}

fn usable_icon(icon: rmcp::model::Icon) -> Option<DefinitionIcon> {
    let (media_type, image) = image(&icon.src)?;
    // Written anew: nothing of the server's own spelling is left.
    let src = format!("data:{media_type};base64,{}", STANDARD.encode(image));
    let is_size = |size: &String| {
        size.len() <= MAX_SIZE_BYTES
            && size.split('x').count() == 2
            && size.bytes().all(|byte| byte.is_ascii_digit() || byte == b'x')
    };
    let theme = icon.theme.and_then(|theme| serde_json::to_value(theme).ok()?.as_str().map(str::to_owned));
    let theme = theme.filter(|theme| ["light", "dark"].contains(&theme.as_str()));
    let sizes = icon.sizes.unwrap_or_default().into_iter().filter(is_size).take(MAX_ICONS).collect();
    Some(DefinitionIcon { src, sizes, theme })
}

/// The media type and the bytes of a `data:` URI, if it is a raster image that begins as its type does.
fn image(src: &str) -> Option<(&'static str, Vec<u8>)> {
    if src.len() > MAX_ICON_BYTES * 4 / 3 + 64 {
        return None;
    }
    let (media_type, data) = src.strip_prefix("data:")?.split_once(";base64,")?;
    let (media_type, begins) =
        MEDIA_TYPES.iter().find(|(known, _)| media_type.eq_ignore_ascii_case(known)).copied()?;
    let bytes = STANDARD.decode(data).ok()?;
    (bytes.len() <= MAX_ICON_BYTES && bytes.starts_with(begins)).then_some((media_type, bytes))
}

impl DefinitionIcon {
    /// For clients.
    pub(crate) fn shown(&self) -> ToolIcon {
        ToolIcon { src: self.src.as_str().into(), sizes: self.sizes.clone(), theme: self.theme.clone() }
    }

    /// For operators: the image itself would fill screens.
    pub(crate) fn summary(&self) -> String {
        let kind = self.src.strip_prefix("data:").and_then(|rest| rest.split(';').next()).unwrap_or_default();
        let digest: String = Sha256::of(self.src.as_bytes()).to_string().chars().take(16).collect();
        format!("{kind}, {} bytes of text, digest {digest}", self.src.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn icon(src: &str) -> rmcp::model::Icon {
        rmcp::model::Icon::new(src)
    }

    #[test]
    fn only_small_raster_images_are_passed_on() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        let good = format!("data:image/png;base64,{png}");
        assert_eq!(usable_icon(icon(&good)).unwrap().src, good);
        assert_eq!(usable_icon(icon(&good.replace("image/png", "Image/PNG"))).unwrap().src, good);
        let large = STANDARD.encode([&b"\x89PNG\r\n\x1a\n"[..], &vec![0; MAX_ICON_BYTES]].concat());
        for refused in [
            "https://example.com/icon.png",
            "http://127.0.0.1/icon.png",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:image/svg+xml;base64,PHN2Zy8+",
            "data:text/html;base64,PGI+",
            &format!("data:image/jpeg;base64,{png}"),
            &format!("data:image/png;charset=x;base64,{png}"),
            &format!("data:image/png,{png}"),
            "data:image/png;base64,no base64",
            &format!("data:image/png;base64,{large}"),
        ] {
            assert_eq!(usable_icon(icon(refused)), None, "{refused:.60}");
        }
    }

    #[test]
    fn what_is_said_about_an_icon_is_bounded() {
        let good = format!("data:image/gif;base64,{}", STANDARD.encode(b"GIF89a"));
        let mut said = icon(&good);
        said.sizes =
            Some(vec!["48x48".to_owned(), "any".to_owned(), "1x".repeat(40), "a\u{202e}x1".to_owned()]);
        assert_eq!(usable_icon(said).unwrap().sizes, ["48x48"]);
        assert_eq!(usable_icons(Some(vec![icon(&good); 9])).len(), MAX_ICONS);
        assert!(usable_icons(None).is_empty());
    }
}
