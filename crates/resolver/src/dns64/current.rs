// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handler in force. Another configuration makes another one; questions that the old one has are answered by it.

use std::cell::RefCell;
use std::rc::Rc;

use super::queries::QueryHandler;

/// Where whoever has a question finds the handler.
pub struct Current(RefCell<Rc<QueryHandler>>);

impl Current {
    /// The first one.
    pub fn new(handler: Rc<QueryHandler>) -> Current {
        Current(RefCell::new(handler))
    }

    /// It.
    pub fn handler(&self) -> Rc<QueryHandler> {
        self.0.borrow().clone()
    }

    /// Puts another one in force.
    pub fn replace(&self, handler: Rc<QueryHandler>) {
        self.0.replace(handler);
    }
}
