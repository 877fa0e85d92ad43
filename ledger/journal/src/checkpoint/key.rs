//! Keys in the text forms of signed notes: `PRIVATE+KEY+NAME+ID+DATA` to sign, `NAME+ID+DATA` to verify.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

/// Signature type of Ed25519.
const ED25519_ALGORITHM: u8 = 1;

/// The prefix of a private key.
const PRIVATE: &str = "PRIVATE+KEY+";

/// A text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another form.
    #[error("it is not of the form {0}")]
    Form(&'static str),
    /// The name is empty, or holds a space or a plus sign.
    #[error("a key's name must not be empty or contain spaces or plus signs")]
    Name,
    /// The id does not match the name and the key.
    #[error("its id does not belong to its name and key")]
    Id,
    /// The algorithm is not Ed25519.
    #[error("it is not a key for Ed25519")]
    Algorithm,
    /// The operating system provided no random numbers.
    #[error("the operating system provides no random numbers")]
    Random,
}

/// A key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    key: [u8; 32],
}

/// A key that signs.
pub struct PrivateKey {
    public: PublicKey,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl PublicKey {
    /// The name of the key: the origin of the checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first four bytes of the SHA-256 hash of name, type and key.
    pub fn id(&self) -> [u8; 4] {
        let mut text = self.name.clone().into_bytes();
        text.extend([b'\n', ED25519_ALGORITHM]);
        text.extend(self.key);
        let hash = digest(&SHA256, &text);
        let bytes = hash.as_ref();
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    }

    /// Whether the private key has signed this message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.key);
        key.verify(message, signature).is_ok()
    }
}

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// [`KeyError::Name`], [`KeyError::Random`].
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        let random = SystemRandom::new().fill(&mut seed);
        random.map_err(|_| KeyError::Random)?;
        Self::from_seed(name, seed)
    }

    pub(super) fn from_seed(name: &str, seed: [u8; 32]) -> Result<Self, KeyError> {
        check_name(name)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::Algorithm)?;
        let key = pair.public_key().as_ref().try_into();
        let public =
            PublicKey { name: name.to_owned(), key: key.map_err(|_| KeyError::Algorithm)? };
        Ok(Self { public, seed, pair })
    }

    /// The key that verifies this key's signatures.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// The secret text of the key.
    pub fn to_secret_text(&self) -> String {
        format!("{PRIVATE}{}", text(&self.public, &self.seed))
    }
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    if name.is_empty() || name.contains(wrong) {
        return Err(KeyError::Name);
    }
    Ok(())
}

fn text(public: &PublicKey, key: &[u8; 32]) -> String {
    let mut data = vec![ED25519_ALGORITHM];
    data.extend(key);
    let id = u32::from_be_bytes(public.id());
    format!("{}+{id:08x}+{}", public.name, STANDARD.encode(data))
}

/// The name, the id and the key in a text.
fn parse(text: &str, form: &'static str) -> Result<(String, u32, [u8; 32]), KeyError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(KeyError::Form(form));
    };
    check_name(name)?;
    let id = u32::from_str_radix(id, 16).map_err(|_| KeyError::Form(form))?;
    let data = STANDARD.decode(data).map_err(|_| KeyError::Form(form))?;
    let Some((&ED25519_ALGORITHM, key)) = data.split_first() else {
        return Err(KeyError::Algorithm);
    };
    let key = key.try_into().map_err(|_| KeyError::Algorithm)?;
    Ok((name.to_owned(), id, key))
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, &self.key))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Never shows the secret.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (name, id, key) = parse(text.trim(), "NAME+ID+KEY")?;
        let public = Self { name, key };
        if u32::from_be_bytes(public.id()) != id {
            return Err(KeyError::Id);
        }
        Ok(public)
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        const FORM: &str = "PRIVATE+KEY+NAME+ID+KEY";
        let rest = text.trim().strip_prefix(PRIVATE);
        let (name, id, seed) = parse(rest.ok_or(KeyError::Form(FORM))?, FORM)?;
        let key = Self::from_seed(&name, seed)?;
        if u32::from_be_bytes(key.public.id()) != id {
            return Err(KeyError::Id);
        }
        Ok(key)
    }
}
