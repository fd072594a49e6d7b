//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The system maps pages of a program in groups of 64 KiB. Where the program begins at a multiple of that, it is as large
    // in every process, and its size can be predicted.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=65536");
    }
}
