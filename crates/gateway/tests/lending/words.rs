// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of a lease that controller and programs share. Programs may run wherever the controller changes one.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use diolkos_fastpath::lease::{Memory, Word};

use crate::twin::pause;

/// Words at which programs may run.
#[derive(Debug)]
pub enum Steps {}

/// Such a word.
#[derive(Default)]
pub struct StepWord<T>(Cell<T>);

impl Memory for Steps {
    type U16 = StepWord<u16>;
    type U32 = StepWord<u32>;
    type U64 = StepWord<u64>;
}

macro_rules! step {
    ($number:ty) => {
        impl Word<$number> for StepWord<$number> {
            fn load(&self, _: Ordering) -> $number {
                self.0.get()
            }

            fn store(&self, value: $number, order: Ordering) {
                self.swap(value, order);
            }

            fn swap(&self, value: $number, _: Ordering) -> $number {
                let before = self.0.replace(value);
                // A port is not visible before the tail covers it.
                if size_of::<$number>() > 2 {
                    pause();
                }
                before
            }

            fn fetch_add(&self, more: $number, order: Ordering) -> $number {
                self.swap(self.0.get().wrapping_add(more), order)
            }

            fn compare_exchange(&self, from: $number, to: $number) -> bool {
                let is_same = self.0.get() == from;
                if is_same {
                    self.0.set(to);
                }
                is_same
            }
        }
    };
}

step!(u16);
step!(u32);
step!(u64);
