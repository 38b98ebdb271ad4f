//! The addresses of a manager on a workstation: the usual ports, or others if those are in use.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use anyhow::{Context, Result};

use crate::deploy::Ports;

/// The flag with the address of the webhooks.
pub(crate) const BIND_FLAG: &str = "--webhook-bind-address";
const METRICS_FLAG: &str = "--metrics-bind-address";
const SECURE_FLAG: &str = "--metrics-secure";
const PROBES_FLAG: &str = "--health-probe-bind-address";

/// How many ports are tried, one after the other.
const ATTEMPTS: usize = 16;

/// Flags with the addresses that nobody gave. Other managers of this machine choose others as long as it is held.
pub(crate) struct Addresses {
    webhooks: Option<String>,
    others: Vec<String>,
    reserved: Vec<Reserved>,
}

impl Addresses {
    /// Chooses the addresses that neither the arguments nor the environment have.
    ///
    /// # Errors
    /// Returns an error if this machine has no free port.
    pub(crate) fn choose(args: &[String]) -> Result<Self> {
        Self::choose_among(args, Ports::of_manager()?, |name| std::env::var_os(name))
    }

    fn choose_among(
        args: &[String],
        usual: Ports,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let is_absent = |flag: &str| !is_given(args, flag) && variable(&variable_of(flag)).is_none();
        let mut this = Self { webhooks: None, others: Vec::new(), reserved: Vec::new() };
        if is_absent(BIND_FLAG) {
            let address = this.reserve(usual.webhook)?;
            this.webhooks = Some(format!("{BIND_FLAG}={address}"));
        }
        if is_absent(METRICS_FLAG) {
            let address = this.reserve(usual.metrics)?;
            this.others.push(format!("{METRICS_FLAG}={address}"));
            if is_absent(SECURE_FLAG) {
                this.others.push(format!("{SECURE_FLAG}=false"));
            }
        }
        if is_absent(PROBES_FLAG) {
            let address = this.reserve(usual.probes)?;
            this.others.push(format!("{PROBES_FLAG}={address}"));
        }
        Ok(this)
    }

    fn reserve(&mut self, usual: u16) -> Result<SocketAddr> {
        let reserved = Reserved::usual_or_any(usual)?;
        let address = reserved.address;
        self.reserved.push(reserved);
        Ok(address)
    }

    /// Returns the flag with the address of the webhooks, if it was chosen.
    pub(crate) fn webhooks(&self) -> Option<&str> {
        self.webhooks.as_deref()
    }

    /// Returns the flags with the other addresses that were chosen.
    pub(crate) fn others(&self) -> &[String] {
        &self.others
    }
}

/// An address on which nobody listens yet.
///
/// Between the choice and the moment in which the manager listens, another `cargo xtask run` may choose. So each holds the
/// UDP port of the same number, which the manager has no use for.
struct Reserved {
    address: SocketAddr,
    _claim: UdpSocket,
}

impl Reserved {
    fn usual_or_any(usual: u16) -> Result<Self> {
        let ports = std::iter::once(usual).chain(std::iter::repeat_n(0, ATTEMPTS));
        let mut found = ports.map(Self::new).skip_while(std::io::Result::is_err);
        found
            .next()
            .transpose()?
            .with_context(|| format!("found no free port on 127.0.0.1, neither {usual} nor another"))
    }

    fn new(port: u16) -> std::io::Result<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = claim.local_addr()?;
        TcpListener::bind(address)?;
        Ok(Self { address, _claim: claim })
    }
}

/// The environment variable of a flag.
fn variable_of(flag: &str) -> String {
    format!("ENSEMBLE_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
}

fn is_given(args: &[String], flag: &str) -> bool {
    args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ports that nobody uses.
    fn usual() -> Ports {
        let [probes, webhook, metrics] = [(); 3]
            .map(|()| TcpListener::bind("127.0.0.1:0").unwrap())
            .map(|free| free.local_addr().unwrap().port());
        Ports { probes, webhook, metrics }
    }

    fn all(chosen: &Addresses) -> Vec<String> {
        chosen.webhooks.iter().chain(&chosen.others).cloned().collect()
    }

    #[test]
    fn the_usual_ports_are_chosen_where_they_are_free() {
        let usual = usual();
        let chosen = Addresses::choose_among(&[], usual, |_| None).unwrap();
        let Ports { probes, webhook, metrics } = usual;
        let expected = [
            format!("--webhook-bind-address=127.0.0.1:{webhook}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            "--metrics-secure=false".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
        ];
        assert_eq!(all(&chosen), expected);
    }

    #[test]
    fn another_port_is_chosen_where_somebody_listens() {
        let usual = usual();
        let taken = [usual.probes, usual.webhook, usual.metrics]
            .map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let chosen = all(&Addresses::choose_among(&[], usual, |_| None).unwrap());
        assert_eq!(chosen.len(), 4, "{chosen:?}");
        for port in taken.map(|taken| taken.local_addr().unwrap().port()) {
            assert!(!chosen.iter().any(|flag| flag.ends_with(&format!(":{port}"))), "{port}: {chosen:?}");
        }
    }

    #[test]
    fn two_that_choose_at_once_choose_different_ports() {
        let usual = usual();
        let one = Addresses::choose_among(&[], usual, |_| None).unwrap();
        let other = Addresses::choose_among(&[], usual, |_| None).unwrap();
        let (one, other) = (all(&one), all(&other));
        let shared: Vec<_> = one.iter().filter(|flag| other.contains(flag)).collect();
        assert_eq!(shared, ["--metrics-secure=false"]);
    }

    #[test]
    fn what_was_given_is_left_alone() {
        let args = ["--metrics-bind-address", "127.0.0.1:1", "--health-probe-bind-address=0"];
        let variable = |name: &str| (name == "ENSEMBLE_WEBHOOK_BIND_ADDRESS").then(|| "0".into());
        let chosen = Addresses::choose_among(&args.map(ToOwned::to_owned), usual(), variable).unwrap();
        assert_eq!(all(&chosen), [""; 0]);
        let chosen =
            Addresses::choose_among(&["--metrics-secure=true".to_owned()], usual(), |_| None).unwrap();
        assert!(!all(&chosen).contains(&"--metrics-secure=false".to_owned()));
    }
}
