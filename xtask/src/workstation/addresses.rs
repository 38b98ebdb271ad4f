//! Addresses of a manager on a workstation: the default ports, or free ports if those are in use.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use anyhow::{Context, Result};

use crate::ports::Ports;

/// Flag with the address of the webhooks.
pub(crate) const BIND_FLAG: &str = "--webhook-bind-address";
const METRICS_FLAG: &str = "--metrics-bind-address";
const SECURE_FLAG: &str = "--metrics-secure";
const PROBES_FLAG: &str = "--health-probe-bind-address";

/// Number of ports to try after the default port.
const ATTEMPTS: usize = 16;

/// Flags with addresses that the user did not set.
///
/// While the value exists, other managers on this machine choose other addresses.
pub(crate) struct Addresses {
    webhooks: Option<String>,
    others: Vec<String>,
    reservations: Vec<PortReservation>,
}

impl Addresses {
    /// Chooses the addresses that neither the arguments nor the environment set.
    ///
    /// # Errors
    /// Returns an error if this machine has no free port.
    pub(crate) fn choose(args: &[String]) -> Result<Self> {
        Self::choose_among(args, Ports::of_manager()?, |name| std::env::var_os(name))
    }

    fn choose_among(
        args: &[String],
        defaults: Ports,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let is_unset = |flag: &str| !is_set(args, flag) && variable(&variable_of(flag)).is_none();
        let mut this = Self { webhooks: None, others: Vec::new(), reservations: Vec::new() };
        if is_unset(BIND_FLAG) {
            let address = this.reserve(defaults.webhook)?;
            this.webhooks = Some(format!("{BIND_FLAG}={address}"));
        }
        if is_unset(METRICS_FLAG) {
            let address = this.reserve(defaults.metrics)?;
            this.others.push(format!("{METRICS_FLAG}={address}"));
            if is_unset(SECURE_FLAG) {
                this.others.push(format!("{SECURE_FLAG}=false"));
            }
        }
        if is_unset(PROBES_FLAG) {
            let address = this.reserve(defaults.probes)?;
            this.others.push(format!("{PROBES_FLAG}={address}"));
        }
        Ok(this)
    }

    fn reserve(&mut self, default: u16) -> Result<SocketAddr> {
        let reservation = PortReservation::default_or_any(default)?;
        let address = reservation.address;
        self.reservations.push(reservation);
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

/// Reservation of a free TCP port.
///
/// Another `cargo xtask run` could choose the same port before the manager listens. Each therefore
/// holds the UDP port of the same number, which the manager does not use.
struct PortReservation {
    address: SocketAddr,
    _socket: UdpSocket,
}

impl PortReservation {
    fn default_or_any(default: u16) -> Result<Self> {
        let ports = std::iter::once(default).chain(std::iter::repeat_n(0, ATTEMPTS));
        let mut found = ports.map(Self::new).skip_while(std::io::Result::is_err);
        found.next().transpose()?.with_context(|| {
            format!("cannot bind a port on 127.0.0.1: {default} is in use, and no other port is free")
        })
    }

    fn new(port: u16) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = socket.local_addr()?;
        TcpListener::bind(address)?;
        Ok(Self { address, _socket: socket })
    }
}

/// Returns the environment variable of a flag.
fn variable_of(flag: &str) -> String {
    format!("ENSEMBLE_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
}

fn is_set(args: &[String], flag: &str) -> bool {
    args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}

#[cfg(test)]
mod tests {
    use cluster::reserve_address;

    use super::*;

    /// Returns three ports that no other program is given.
    fn reserved_ports() -> Ports {
        let [probes, webhook, metrics] = [(); 3].map(|()| reserve_address().unwrap().port());
        Ports { probes, webhook, metrics }
    }

    fn all(chosen: &Addresses) -> Vec<String> {
        chosen.webhooks.iter().chain(&chosen.others).cloned().collect()
    }

    #[test]
    fn chooses_default_ports() {
        let defaults = reserved_ports();
        let chosen = Addresses::choose_among(&[], defaults, |_| None).unwrap();
        let Ports { probes, webhook, metrics } = defaults;
        let expected = [
            format!("--webhook-bind-address=127.0.0.1:{webhook}"),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            "--metrics-secure=false".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
        ];
        assert_eq!(all(&chosen), expected);
    }

    #[test]
    fn chooses_other_ports_if_defaults_are_in_use() {
        let defaults = reserved_ports();
        let used = [defaults.probes, defaults.webhook, defaults.metrics]
            .map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
        let chosen = all(&Addresses::choose_among(&[], defaults, |_| None).unwrap());
        assert_eq!(chosen.len(), 4, "{chosen:?}");
        for port in used.map(|listener| listener.local_addr().unwrap().port()) {
            assert!(!chosen.iter().any(|flag| flag.ends_with(&format!(":{port}"))), "{port}: {chosen:?}");
        }
    }

    #[test]
    fn concurrent_choices_are_distinct() {
        let defaults = reserved_ports();
        let one = Addresses::choose_among(&[], defaults, |_| None).unwrap();
        let other = Addresses::choose_among(&[], defaults, |_| None).unwrap();
        let (one, other) = (all(&one), all(&other));
        let shared: Vec<_> = one.iter().filter(|flag| other.contains(flag)).collect();
        assert_eq!(shared, ["--metrics-secure=false"]);
    }

    #[test]
    fn keeps_addresses_that_are_set() {
        let args = ["--metrics-bind-address", "127.0.0.1:1", "--health-probe-bind-address=0"];
        let variable = |name: &str| (name == "ENSEMBLE_WEBHOOK_BIND_ADDRESS").then(|| "0".into());
        let chosen =
            Addresses::choose_among(&args.map(ToOwned::to_owned), reserved_ports(), variable).unwrap();
        assert_eq!(all(&chosen), [""; 0]);
        let chosen =
            Addresses::choose_among(&["--metrics-secure=true".to_owned()], reserved_ports(), |_| None)
                .unwrap();
        assert!(!all(&chosen).contains(&"--metrics-secure=false".to_owned()));
    }
}
