//! Keys of the authenticated mode: HMAC-SHA-256, truncated to 128 bits (RFC 8762, section 4.4).

use std::fmt;
use std::path::{Path, PathBuf};

use contract::secret::{self, SecretFault};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Bytes of a key: what one line of a file has, in hexadecimal digits.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// A key, ready to use.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// Why a file has no key.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct KeyError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, and what to do.
    pub fault: KeyFault,
}

/// What is wrong with a key's file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// It cannot be read, or others could have read or changed it.
    #[error(transparent)]
    Secret(#[from] SecretFault),
    /// Its content is no key.
    #[error(
        "expected 32 to 128 hexadecimal digits in one line, an even number, got {got}; make a key with \
         `openssl rand -hex 32 > FILE`"
    )]
    NoKey {
        /// What it is instead; never the content itself.
        got: String,
    },
}

impl fmt::Debug for Key {
    /// Without the key, which does not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key of these bytes; any number of them.
    pub fn new(bytes: &[u8]) -> Self {
        // Longer keys are hashed (RFC 2104): there is no wrong length.
        Self(
            Hmac::new_from_slice(bytes)
                .unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default())),
        )
    }

    /// Reads a key from a file of one line that other users may neither read nor change.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn load(file: &Path) -> Result<Self, KeyError> {
        read(file).map_err(|fault| KeyError {
            file: file.to_owned(),
            fault,
        })
    }

    /// The tag of several parts, one after the other.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let whole = self.over(parts).finalize().into_bytes();
        let mut tag = [0; TAG_BYTES];
        tag.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        tag
    }

    /// Whether `tag` is that of the parts, in a time that does not depend on where it differs.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        tag.len() == TAG_BYTES && self.over(parts).verify_truncated_left(tag).is_ok()
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        for part in parts {
            hmac.update(part);
        }
        hmac
    }
}

fn read(file: &Path) -> Result<Key, KeyFault> {
    let text = Zeroizing::new(secret::read_line(file, 2 * KEY_BYTES.end())?);
    let no_key = |got: String| Err(KeyFault::NoKey { got });
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    if !text.iter().all(|byte| digit(byte).is_some()) {
        return no_key("other characters".to_owned());
    }
    if text.len() % 2 != 0 || !KEY_BYTES.contains(&(text.len() / 2)) {
        let count = if text.len() > 2 * KEY_BYTES.end() {
            "more".to_owned()
        } else {
            text.len().to_string()
        };
        return no_key(count);
    }
    let pairs = text.chunks_exact(2);
    let bytes = pairs.map(|pair| {
        let digits = pair.iter().filter_map(digit);
        digits.fold(0, |byte: u8, digit| {
            byte << 4 | u8::try_from(digit).unwrap_or(0)
        })
    });
    let bytes = Zeroizing::new(bytes.collect::<Vec<_>>());
    Ok(Key::new(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// RFC 4231, test cases 1, 2 and 5; the last is truncated to 128 bits.
    #[test]
    fn tags_are_those_of_rfc_4231() {
        let cases: [(&[u8], &[u8], [u8; 16]); 3] = [
            (
                &[0x0b; 20],
                b"Hi There",
                0xb034_4c61_d8db_3853_5ca8_afce_af0b_f12b_u128.to_be_bytes(),
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7_u128.to_be_bytes(),
            ),
            (
                &[0x0c; 20],
                b"Test With Truncation",
                0xa3b6_1674_7310_0ee0_6e0c_796c_2955_552b_u128.to_be_bytes(),
            ),
        ];
        for (bytes, text, tag) in cases {
            let key = Key::new(bytes);
            assert_eq!(key.tag(&[&text[..3], &text[3..]]), tag);
            assert!(key.verifies(&[text], &tag));
            assert!(!key.verifies(&[text], &tag[..15]) && !key.verifies(&[&text[1..]], &tag));
        }
    }

    #[test]
    fn keys_come_from_files_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let load = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            Key::load(&file).map_err(|error| error.to_string())
        };
        let key = load(&"0B".repeat(20), 0o600).unwrap();
        assert_eq!(key.tag(&[b"x"]), Key::new(&[0x0b; 20]).tag(&[b"x"]));
        let cases = [
            (format!("{}\n", "ab".repeat(15)), 0o600, "got 30"),
            ("ab".repeat(65), 0o600, "got more"),
            (format!("{}a", "ab".repeat(16)), 0o600, "got 33"),
            (
                "not a key, which nobody should see".to_owned(),
                0o600,
                "got other characters",
            ),
            ("ab".repeat(32), 0o604, "chmod o="),
        ];
        for (text, mode, expected) in cases {
            let error = load(&text, mode).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("nobody should see"),
                "{error}"
            );
        }
        fs::remove_file(&file).unwrap();
        assert!(
            Key::load(&file)
                .unwrap_err()
                .to_string()
                .contains("No such file")
        );
    }
}
