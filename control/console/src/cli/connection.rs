//! Address and token of the switch that is asked.

use std::path::PathBuf;

use clap::Args;

use crate::client::{Client, ClientError, DEFAULT_URL, read_token};

/// Address and token of a switch.
#[derive(Debug, Clone, Args)]
pub struct Connection {
    /// The switch's HTTP address
    #[arg(long, value_name = "URL", env = "VERNIER_URL", default_value = DEFAULT_URL)]
    pub url: String,
    /// File with the switch's token, where it needs one
    #[arg(long, value_name = "FILE", env = "VERNIER_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

impl Connection {
    /// The client of the switch.
    ///
    /// # Errors
    /// [`ClientError::TokenFile`].
    pub fn client(&self) -> Result<Client, ClientError> {
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        Ok(Client::new(&self.url, token))
    }
}
