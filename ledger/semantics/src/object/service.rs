//! Services: load balancers and node ports.

use super::{
    metadata::Metadata,
    names::{COUNT_SERVICES, SERVICES, SERVICES_LOAD_BALANCERS, SERVICES_NODE_PORTS},
};
use crate::{Name, nullable::nullable_fields, quantity::Quantity, resource::ResourceList};

nullable_fields! {
    /// A service with the fields that quota rules use.
    pub struct Service {
        /// Its metadata.
        pub metadata: Metadata,
        spec: Spec,
    }

    struct Spec {
        #[serde(rename = "type")]
        kind: Name,
        ports: Vec<Port>,
        allocate_load_balancer_node_ports: Option<bool>,
    }

    struct Port {
        node_port: i32,
    }
}

impl Service {
    /// The amounts of the service; load balancers and node ports are present even if they are zero.
    pub fn resources(&self) -> ResourceList {
        let one = || Quantity::from_units(1);
        let (load_balancers, node_ports) = match self.spec.kind.as_str() {
            "NodePort" => (Quantity::ZERO, self.spec.ports.len()),
            "LoadBalancer" => (one(), self.load_balancer_node_ports()),
            _ => (Quantity::ZERO, 0),
        };
        let node_ports = Quantity::from_units(i64::try_from(node_ports).unwrap_or(i64::MAX));
        ResourceList::from_iter([
            (COUNT_SERVICES.clone(), one()),
            (SERVICES.clone(), one()),
            (SERVICES_LOAD_BALANCERS.clone(), load_balancers),
            (SERVICES_NODE_PORTS.clone(), node_ports),
        ])
    }

    /// Without automatic node ports only explicitly requested ones count.
    fn load_balancer_node_ports(&self) -> usize {
        let ports = &self.spec.ports;
        if self.spec.allocate_load_balancer_node_ports == Some(false) {
            ports.iter().filter(|port| port.node_port != 0).count()
        } else {
            ports.len()
        }
    }
}
