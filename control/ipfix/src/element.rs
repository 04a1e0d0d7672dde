//! Information elements: the used ones of IANA's registry, and Vernier's own.

/// Type of an element's values (RFC 7012, section 3.1; numbers of RFC 5610, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Unsigned8 = 1,
    Unsigned16 = 2,
    Unsigned32 = 3,
    Unsigned64 = 4,
    Signed64 = 8,
    MacAddress = 12,
    String = 13,
    DateTimeMilliseconds = 15,
    Ipv4Address = 18,
    Ipv6Address = 19,
}

impl Kind {
    /// Octets of a value other than text.
    const fn length(self) -> u16 {
        match self {
            Self::Unsigned8 => 1,
            Self::Unsigned16 => 2,
            Self::Unsigned32 | Self::Ipv4Address => 4,
            Self::MacAddress => 6,
            Self::Unsigned64 | Self::Signed64 | Self::DateTimeMilliseconds => 8,
            Self::Ipv6Address => 16,
            Self::String => 0,
        }
    }

    /// Its name in documents.
    #[cfg(test)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsigned8 => "unsigned8",
            Self::Unsigned64 => "unsigned64",
            Self::Signed64 => "signed64",
            Self::String => "string",
            _ => "not used for elements of our own",
        }
    }
}

/// Semantics of a number (RFC 5610, section 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Semantics {
    Default = 0,
    Quantity = 1,
    DeltaCounter = 3,
    Identifier = 4,
}

/// The unit of a number (RFC 5610, section 3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Units {
    None = 0,
    Packets = 3,
    Nanoseconds = 8,
}

/// An element's description.
#[derive(Debug)]
pub(crate) struct Description {
    pub id: u16,
    /// Whether it is Vernier's own, under the private enterprise number.
    pub is_own: bool,
    pub kind: Kind,
    pub semantics: Semantics,
    pub units: Units,
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! elements {
    ($(
        iana { $($iana:ident = $iana_id:literal $iana_kind:ident,)* }
        own { $($own:ident = $id:literal $kind:ident $semantics:ident $units:ident $name:literal $text:literal,)* }
    )*) => {
        /// An element. Records contain their elements in this order; scopes of options come first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub(crate) enum Element { $($($iana,)* $($own,)*)* }

        impl Element {
            pub const ALL: &[Self] = &[$($(Self::$iana,)* $(Self::$own,)*)*];

            pub const fn description(self) -> &'static Description {
                match self {
                    $($(Self::$iana => &Description {
                        id: $iana_id,
                        is_own: false,
                        kind: Kind::$iana_kind,
                        semantics: Semantics::Default,
                        units: Units::None,
                        name: "",
                        text: "",
                    },)*
                    $(Self::$own => &Description {
                        id: $id,
                        is_own: true,
                        kind: Kind::$kind,
                        semantics: Semantics::$semantics,
                        units: Units::$units,
                        name: $name,
                        text: $text,
                    },)*)*
                }
            }
        }
    };
}

elements! {
    iana {
        PrivateEnterpriseNumber = 346 Unsigned32,
        InformationElementId = 303 Unsigned16,
        IngressInterface = 10 Unsigned32,
        EgressInterface = 14 Unsigned32,
    }
    own {
        ClassId = 1 Unsigned8 Identifier None "vernierClassId" "class of the packets",
        SegmentKind = 2 Unsigned8 Identifier None "vernierSegmentKind" "1 inside the switch, 2 around a device, 3 on the wire",
    }
    iana {
        InformationElementDataType = 339 Unsigned8,
        InformationElementSemantics = 344 Unsigned8,
        InformationElementUnits = 345 Unsigned16,
        InformationElementName = 341 String,
        InformationElementDescription = 340 String,
        InterfaceName = 82 String,
        SourceIpv4Address = 8 Ipv4Address,
        DestinationIpv4Address = 12 Ipv4Address,
        SourceIpv6Address = 27 Ipv6Address,
        DestinationIpv6Address = 28 Ipv6Address,
        SourceMacAddress = 56 MacAddress,
        DestinationMacAddress = 80 MacAddress,
        VlanId = 58 Unsigned16,
        EthernetType = 256 Unsigned16,
        SourceTransportPort = 7 Unsigned16,
        DestinationTransportPort = 11 Unsigned16,
        ProtocolIdentifier = 4 Unsigned8,
        OctetDeltaCount = 1 Unsigned64,
        PacketDeltaCount = 2 Unsigned64,
        DroppedPacketDeltaCount = 133 Unsigned64,
        FlowStartMilliseconds = 152 DateTimeMilliseconds,
        FlowEndMilliseconds = 153 DateTimeMilliseconds,
        PathDelayMeanDeltaMicroseconds = 530 Unsigned32,
        PathDelayMinDeltaMicroseconds = 531 Unsigned32,
        PathDelayMaxDeltaMicroseconds = 532 Unsigned32,
        PathDelaySumDeltaMicroseconds = 533 Unsigned64,
    }
    own {
        ClassName = 3 String Default None "vernierClassName" "name of a class",
        Epoch = 4 Unsigned64 Identifier None "vernierEpoch" "last epoch that the record is for",
        DelayPackets = 5 Unsigned64 DeltaCounter Packets "vernierDelayPackets" "packets whose delay was stamped",
        DelayMean = 6 Unsigned64 Quantity Nanoseconds "vernierDelayMean" "mean of their delays",
        DelayDeviation = 7 Unsigned64 Quantity Nanoseconds "vernierDelayDeviation" "standard deviation of their delays",
        DelayMin = 8 Unsigned64 Quantity Nanoseconds "vernierDelayMin" "least of their delays",
        DelayMax = 9 Unsigned64 Quantity Nanoseconds "vernierDelayMax" "greatest of their delays",
        DelayP50 = 10 Unsigned64 Quantity Nanoseconds "vernierDelayP50" "median of their delays",
        DelayP90 = 11 Unsigned64 Quantity Nanoseconds "vernierDelayP90" "90th percentile",
        DelayP99 = 12 Unsigned64 Quantity Nanoseconds "vernierDelayP99" "99th percentile",
        DelayP999 = 13 Unsigned64 Quantity Nanoseconds "vernierDelayP999" "99.9th percentile",
        DelayP9999 = 14 Unsigned64 Quantity Nanoseconds "vernierDelayP9999" "99.99th percentile",
        EstimatedMean = 15 Signed64 Quantity Nanoseconds "vernierEstimatedDelayMean" "estimated mean delay; negative where clocks are apart",
        EstimatedBound = 16 Unsigned64 Quantity Nanoseconds "vernierEstimatedDelayBound" "half-width of the nominal 98 % interval around it",
        EstimatedDeviation = 17 Unsigned64 Quantity Nanoseconds "vernierEstimatedDelayDeviation" "estimated standard deviation",
        EstimatePackets = 18 Unsigned64 DeltaCounter Packets "vernierEstimatePackets" "packets that the estimate is over",
        EstimateEpoch = 19 Unsigned64 Identifier None "vernierEstimateEpoch" "last epoch of the estimate; on the wire the sender's",
        EstimateMethod = 20 String Default None "vernierEstimateMethod" "method of the estimate, such as lda or hybrid",
    }
}

impl Element {
    /// Octets of a value. Texts have a fixed length and are padded with zeros, because pmacct 1.7.7 loops for ever on
    /// options of variable length.
    pub const fn length(self) -> u16 {
        match self {
            Self::EstimateMethod => 16,
            Self::InformationElementName => 32,
            Self::InformationElementDescription => 64,
            Self::InterfaceName | Self::ClassName => 128,
            other => other.description().kind.length(),
        }
    }

    /// Vernier's own.
    pub fn own() -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(|element| element.description().is_own)
    }
}

// A set of elements is a 64-bit number.
const _: () = assert!(Element::ALL.len() <= 64);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_element_is_there_once() {
        let known = Element::ALL.iter().map(|element| element.description());
        let ids: HashSet<_> = known.map(|known| (known.is_own, known.id)).collect();
        assert_eq!(ids.len(), Element::ALL.len());
        for element in Element::ALL {
            let Description { name, text, .. } = element.description();
            assert!(element.length() > 0 && name.len() <= 32 && text.len() <= 64);
        }
    }

    #[test]
    fn the_document_has_every_element_of_our_own() {
        let page = include_str!("../../../docs/ipfix.md");
        for element in Element::own() {
            let Description {
                id,
                kind,
                units,
                name,
                text,
                ..
            } = element.description();
            let kind = kind.name();
            let units = match units {
                Units::None => "",
                Units::Nanoseconds => "ns",
                Units::Packets => "packets",
            };
            let row = format!("| {id} | `{name}` | {kind} | {units} | {text} |");
            assert!(page.contains(&row), "docs/ipfix.md needs the row\n{row}");
        }
    }
}
