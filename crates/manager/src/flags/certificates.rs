//! The flags of the certificates.

use std::time::Duration;

use clap::{Args, ValueEnum};
use operator_runtime::certificates::{Host, Lifetimes, LifetimesError, Source};

use super::duration::duration;

#[derive(Args)]
#[command(next_help_heading = "Certificates")]
pub(super) struct CertificateFlags {
    /// Who makes the certificates of the HTTPS servers, in the Secret ensemble-certificates
    #[arg(long, env = "ENSEMBLE_CERTIFICATES", value_enum, default_value = "managed")]
    certificates: Who,

    /// How long a certificate authority lasts; replaced, with overlap, after two thirds of it
    #[arg(long, env = "ENSEMBLE_CERTIFICATE_AUTHORITY_VALIDITY", default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    certificate_authority_validity: Duration,

    /// How long a serving certificate lasts; replaced after two thirds of it. At least 10s, which is for tests
    #[arg(long, env = "ENSEMBLE_CERTIFICATE_VALIDITY", default_value = "2160h", value_name = "DURATION", value_parser = duration)]
    certificate_validity: Duration,

    /// DNS names and IP addresses by which this manager is reached, besides the names of its Services
    #[arg(long, env = "ENSEMBLE_WEBHOOK_HOST", value_delimiter = ',', value_name = "HOST")]
    webhook_host: Vec<Host>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Who {
    /// The manager itself; all replicas share them and replace them in time
    Managed,
    /// cert-manager, by deploy/cert-manager; the manager follows
    CertManager,
}

impl CertificateFlags {
    /// What was asked for, and the hosts.
    ///
    /// # Errors
    /// A sentence that names the flag whose value does not fit.
    pub(super) fn read(self) -> Result<(Source, Vec<Host>), String> {
        let lifetimes = Lifetimes::new(self.certificate_authority_validity, self.certificate_validity);
        let lifetimes = lifetimes.map_err(|error| format!("--{}: {error}", flag(error)))?;
        let source = match self.certificates {
            Who::Managed => Source::Managed(lifetimes),
            Who::CertManager => Source::CertManager,
        };
        Ok((source, self.webhook_host))
    }
}

fn flag(error: LifetimesError) -> &'static str {
    match error {
        LifetimesError::TooShort(_) => "certificate-validity",
        LifetimesError::Outlived { .. } | LifetimesError::TooLong(_) => "certificate-authority-validity",
    }
}
