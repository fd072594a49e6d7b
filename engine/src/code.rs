//! The machine code of this package, mapped before a run.
//!
//! The system maps the code of a program where it is first called, sixteen pages at a time, so each kind of run would add another
//! amount to the process. Always holds: what is mapped here is in the size of the process that a run comes on top of.

use crate::{
    backend::Cpu,
    data::{Alphabet, Dataset, DeviceDatasetLayout, Loader, kept_by_decoders, uploading},
    experiment::{BlockSet, DatasetInfo, Distil, LowRank, Optimizer, check, preset, settings, shipped, weights},
    hardware::{Machine, list},
    header,
    interop::{export, factoring_bytes, factoring_touched, known},
    memory::program,
    models::Model,
    nn::{Factorable, Linear},
    optim,
    plan::{Limit, Plan, Resolved, predict},
    report::{Comparison, Kept, Lock, curves, lock, tables, trace},
    selftest,
    step::Session,
    store::{Prune, Recorder, RunKey, SmallerModel, Store, StoredRun, listed, would_take},
    train::{Summary, Tester, Trainer, Tried, claim::Claim},
};

/// Bytes of code that may lie before the first of the functions below, and behind the last one.
const BESIDE: usize = 192 << 10;

/// Has the code mapped before a machine is measured. A program calls it at its start, or predicts processes with more room for the
/// code that is mapped as it is called.
pub fn announce() {
    program::tell_ahead(functions, BESIDE);
}

/// Functions of each part of the package. The compiler lays the package in one place and orders the parts by itself, so there are
/// enough of them to be near both of its ends.
fn functions() -> Vec<*const ()> {
    vec![
        Alphabet::decode as *const (),
        BlockSet::set as *const (),
        Claim::take as *const (),
        Comparison::of as *const (),
        Dataset::test_sample as *const (),
        DatasetInfo::image as *const (),
        DeviceDatasetLayout::new as *const (),
        Distil::is_asked_before as *const (),
        Factorable::name_of as *const (),
        Kept::read as *const (),
        Limit::early as *const (),
        Linear::<Cpu>::giving_classes as *const (),
        Loader::train_taught as *const (),
        Lock::new as *const (),
        LowRank::table as *const (),
        Machine::detect as *const (),
        Model::<Cpu>::build as *const (),
        Model::<Cpu>::features as *const (),
        Model::<Cpu>::parameters as *const (),
        Optimizer::choose as *const (),
        Plan::of as *const (),
        Prune::choose as *const (),
        Recorder::new as *const (),
        Resolved::new as *const (),
        RunKey::new as *const (),
        Session::<Cpu>::replaced as *const (),
        Session::<Cpu>::upload_dataset as *const (),
        SmallerModel::of as *const (),
        Store::open as *const (),
        Store::version as *const (),
        StoredRun::experiment as *const (),
        Summary::whole_bytes as *const (),
        Tester::new as *const (),
        Trainer::send as *const (),
        Tried::begun as *const (),
        check::check as *const (),
        curves::quoted as *const (),
        export as *const (),
        factoring_bytes as *const (),
        factoring_touched as *const (),
        header::read as *const (),
        kept_by_decoders as *const (),
        known as *const (),
        list as *const (),
        listed as *const (),
        lock::check as *const (),
        optim::of_kind as *const (),
        predict::places::requests as *const (),
        preset::to_text as *const (),
        selftest::run_on as *const (),
        settings::find as *const (),
        shipped::find as *const (),
        tables::layers as *const (),
        trace::json as *const (),
        uploading as *const (),
        weights::are_in as *const (),
        would_take as *const (),
    ]
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn all_code_lies_in_one_place_and_can_be_mapped() {
        // Systems before Linux 5.14 do not know the call, and map code as it is called.
        let is_known = || std::io::Error::last_os_error().kind() != std::io::ErrorKind::InvalidInput;
        announce();
        assert!(program::map_ahead() || !is_known());
        let addresses = || functions().into_iter().map(<*const ()>::addr);
        let (first, last) = (addresses().min(), addresses().max());
        assert!(last.zip(first).is_some_and(|(last, first)| (256 << 10..16 << 20).contains(&(last - first))));
    }
}
