//! The channels that tensors of a model share.
//!
//! A channel that a layer writes is one that the next layer reads: in its filters, in its norm, and beyond a residual
//! connection in every layer that adds to it. Always holds: channels of one group go together or not at all. Refuses nothing; a
//! caller finds that a tensor is missing if no layer declared it.

use crate::memory::timeline::LayerId;

/// Channels that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelGroup(usize);

/// The channels of a tensor, seen as rows: the channels of its rows, and the channels that repeat along a row.
#[derive(Debug, Clone, Copy)]
pub struct TensorChannels {
    /// The tensor's layer.
    pub layer: LayerId,
    /// The tensor's name in its layer, such as `weight`.
    pub name: &'static str,
    /// The group of its rows: the filters of a convolution, the outputs of a dense layer.
    pub rows: Option<ChannelGroup>,
    /// The group of its last extent, which may hold it several times over.
    pub columns: Option<ChannelGroup>,
}

/// The groups of a model's channels, and the tensors that have them.
#[derive(Debug, Default)]
pub struct ChannelMap {
    groups: Vec<Known>,
    tensors: Vec<TensorChannels>,
}

/// The facts of a group.
#[derive(Debug, Clone, Copy)]
struct Known {
    channels: usize,
    is_fixed: bool,
    /// The group that it was found to be the same as.
    joined: usize,
}

impl ChannelMap {
    /// A new group of this many channels.
    pub fn group(&mut self, channels: usize) -> ChannelGroup {
        let joined = self.groups.len();
        self.groups.push(Known { channels, is_fixed: false, joined });
        ChannelGroup(joined)
    }

    /// A new group of channels that stay, such as the colours of an image.
    pub fn fixed(&mut self, channels: usize) -> ChannelGroup {
        let group = self.group(channels);
        self.fix(group);
        group
    }

    /// Lets the channels of a group stay.
    pub fn fix(&mut self, group: ChannelGroup) {
        let root = self.root(group);
        self.groups[root.0].is_fixed = true;
    }

    /// Channels that are added to each other: one group from here on.
    pub fn join(&mut self, one: ChannelGroup, other: ChannelGroup) -> ChannelGroup {
        let [one, other] = [self.root(one), self.root(other)];
        self.groups[other.0].joined = one.0;
        self.groups[one.0].is_fixed |= self.groups[other.0].is_fixed;
        one
    }

    /// Notes the channels of a tensor.
    pub fn note(&mut self, tensor: TensorChannels) {
        self.tensors.push(tensor);
    }

    /// The channels of a tensor; `None` if no layer declared them.
    pub fn of(&self, layer: LayerId, name: &str) -> Option<&TensorChannels> {
        self.tensors.iter().find(|tensor| tensor.layer == layer && tensor.name == name)
    }

    /// Every tensor whose rows are channels that may go, which it writes.
    pub fn writers(&self) -> impl Iterator<Item = (&TensorChannels, ChannelGroup)> {
        self.tensors.iter().filter_map(|tensor| {
            let rows = self.root(tensor.rows?);
            (!self.groups[rows.0].is_fixed).then_some((tensor, rows))
        })
    }

    /// The groups by number, those that were joined under one of them, each with its channels and whether they may go.
    pub fn groups(&self) -> impl Iterator<Item = (usize, bool)> {
        self.groups.iter().map(|group| {
            let root = &self.groups[self.root(ChannelGroup(group.joined)).0];
            (root.channels, !root.is_fixed)
        })
    }

    /// The number in [`ChannelMap::groups`] of the group that stands for this one and all that were joined to it.
    pub fn number(&self, group: ChannelGroup) -> usize {
        self.root(group).0
    }

    fn root(&self, ChannelGroup(mut at): ChannelGroup) -> ChannelGroup {
        while self.groups[at].joined != at {
            at = self.groups[at].joined;
        }
        ChannelGroup(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_to_what_stays_stays() {
        let mut map = ChannelMap::default();
        let (colours, a, b, c) = (map.fixed(3), map.group(8), map.group(8), map.group(8));
        let sum = map.join(a, b);
        assert_eq!(map.number(a), map.number(b));
        assert_ne!(map.number(a), map.number(c));
        let note = |map: &mut ChannelMap, rows, columns| {
            map.note(TensorChannels {
                layer: LayerId(rows as u32),
                name: "weight",
                rows: Some(ChannelGroup(rows)),
                columns,
            });
        };
        note(&mut map, b.0, Some(colours));
        note(&mut map, c.0, Some(sum));
        assert_eq!(map.writers().map(|(_, group)| map.number(group)).collect::<Vec<_>>(), [a.0, c.0]);
        map.fix(b);
        assert_eq!(map.writers().map(|(_, group)| map.number(group)).collect::<Vec<_>>(), [c.0]);
        assert_eq!(map.groups().collect::<Vec<_>>(), [(3, false), (8, false), (8, false), (8, true)]);
        assert!(map.of(LayerId(b.0 as u32), "bias").is_none() && map.of(LayerId(b.0 as u32), "weight").is_some());
    }
}
