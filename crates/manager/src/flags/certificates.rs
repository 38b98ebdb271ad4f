//! Flags of the certificates.

use std::time::Duration;

use clap::{Args, ValueEnum};
use operator_runtime::certificates::{Host, Lifetimes, LifetimesError, Source};

use operator_runtime::flags::duration;

#[derive(Args)]
#[command(next_help_heading = "Certificates")]
pub(super) struct CertificateFlags {
    /// Issuer of the certificates of the HTTPS servers, which are in the Secret ensemble-certificates
    #[arg(long, env = "ENSEMBLE_CERTIFICATES", value_enum, default_value = "managed")]
    certificates: Issuer,

    /// Lifetime of the certificate authority. It is rotated, with overlap, after two thirds of its lifetime
    #[arg(long, env = "ENSEMBLE_CERTIFICATE_AUTHORITY_VALIDITY", default_value = "8760h", value_name = "DURATION", value_parser = duration)]
    certificate_authority_validity: Duration,

    /// Lifetime of a serving certificate. It is rotated after two thirds of its lifetime. The minimum is 10s, for tests
    #[arg(long, env = "ENSEMBLE_CERTIFICATE_VALIDITY", default_value = "2160h", value_name = "DURATION", value_parser = duration)]
    certificate_validity: Duration,

    /// Comma-separated list of DNS names and IP addresses of the manager, in addition to the names of its Services
    #[arg(long, env = "ENSEMBLE_WEBHOOK_HOST", value_delimiter = ',', value_name = "HOST")]
    webhook_host: Vec<Host>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Issuer {
    /// The manager. All replicas share the certificates
    Managed,
    /// cert-manager, with the resources in deploy/cert-manager
    CertManager,
}

impl CertificateFlags {
    /// Returns the source of the certificates and the additional hosts.
    ///
    /// # Errors
    /// Returns an error with the name of the flag whose value is invalid.
    pub(super) fn validate(self) -> Result<(Source, Vec<Host>), String> {
        let lifetimes = Lifetimes::new(self.certificate_authority_validity, self.certificate_validity);
        let lifetimes = lifetimes.map_err(|error| format!("--{}: {error}", flag(error)))?;
        let source = match self.certificates {
            Issuer::Managed => Source::Managed(lifetimes),
            Issuer::CertManager => Source::CertManager,
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
