//! Plimsoll: tune neural-network training inside a memory budget.

mod advice;
mod alarm;
mod app;
mod budgets;

mod cli;
mod closing;
mod command;
mod dispatch;
mod document;
mod drafts;
mod figure;
mod files;
mod focus;
mod format;
mod frames;
mod gallery;
mod history;
mod kept;
mod layout;
mod librarian;
mod limit;
mod naming;
mod page;
mod panels;
mod passes;
mod peak;
mod planner;
mod presets;
mod recent;
mod regions;
mod runs;
mod samples;
mod saves;
mod session;
mod state;
mod takeaway;
mod taken;
mod theme;
mod trials;
mod typing;
mod unfinished;
mod view;
mod widgets;
mod window;
mod zoom;

fn main() -> std::process::ExitCode {
    cli::main()
}
