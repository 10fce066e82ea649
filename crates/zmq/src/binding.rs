//! The beginning of endpoints at which a socket listens.

use crate::address::{self, Address};
use crate::endpoint::{Endpoint, Role};
use crate::error::Error;
use crate::monitor::{Ends, Event};
use crate::secure::Secure;
use crate::state::{State, Token};
use crate::transport::NotListening;

impl State {
    /// Listens at an endpoint.
    pub(crate) fn bind(&mut self, endpoint: &str, address: Address) -> Result<(), Error> {
        let lent = match address {
            Address::Inproc(_) => None,
            _ => self.lent_listener.take(),
        };
        let mut secure = None;
        let (descriptor, name, file) = match address {
            Address::Tcp(_) | Address::Ipc(_) if lent.is_some() => {
                let descriptor = lent.ok_or(Error::Fault)?;
                let name = match crate::transport::local_address(&descriptor) {
                    Some(address) => format!("tcp://{address}"),
                    None => endpoint.to_owned(),
                };
                (descriptor, name, None)
            }
            Address::Tcp(text) => {
                let address = address::listen_address(&text, self.options.ipv6)
                    .map_err(|error| self.report_bind_failure(endpoint, error))?;
                let (descriptor, name) = crate::transport::listen_tcp(address, &self.options)
                    .map_err(|failure| self.report_bind_failure(endpoint, failure))?;
                (descriptor, name, None)
            }
            Address::WebSocket(web) => {
                if web.is_secure {
                    secure = Some(Secure::server(&self.options)?);
                }
                let address = address::listen_address(&web.place, self.options.ipv6)
                    .map_err(|error| self.report_bind_failure(endpoint, error))?;
                let (descriptor, name) = crate::transport::listen_tcp(address, &self.options)
                    .map_err(|failure| self.report_bind_failure(endpoint, failure))?;
                let place = name.trim_start_matches("tcp://");
                let name = format!("{}://{place}{}", web.scheme(), web.path);
                (descriptor, name, None)
            }
            Address::Ipc(path) => crate::transport::listen_unix(&path, &self.options)
                .map_err(|failure| self.report_bind_failure(endpoint, failure))?,
            Address::Shm(path) => crate::transport::listen_shared(&path, &self.options)
                .map_err(|failure| self.report_bind_failure(endpoint, failure))?,
            Address::Inproc(_) => return self.bind_inproc(endpoint),
            Address::Udp(_) => return Err(Error::IncompatibleTransport),
        };
        let number = crate::transport::raw(&descriptor) as u64;
        let key = self.endpoints.next_key();
        let flags = rustix::event::epoll::EventFlags::IN;
        self.watch_descriptor(&descriptor, Token::Endpoint(key), flags)?;
        let options = self.options_now();
        let inserted = self.endpoints.insert(Endpoint {
            name: name.clone(),
            role: Role::Listener { descriptor, file },
            options,
            secure,
            is_leaving: false,
        });
        debug_assert_eq!(inserted, key, "events of the listener name its endpoint");
        self.report(Event::Listening, number, &Ends::bound(&name));
        self.last_endpoint = name;
        Ok(())
    }

    /// Tells that nothing listens there, after the end of the descriptor that was to, as libzmq
    /// does. Returns the error.
    pub(crate) fn report_bind_failure(
        &mut self,
        endpoint: &str,
        failure: impl Into<NotListening>,
    ) -> Error {
        let NotListening { error, number } = failure.into();
        let ends = Ends::bound(endpoint);
        if let Some(number) = number {
            self.report(Event::Closed, number, &ends);
        }
        self.report(Event::BindFailed, error.errno() as u64, &ends);
        error
    }

    fn bind_inproc(&mut self, endpoint: &str) -> Result<(), Error> {
        let hello = self.hello();
        let early = self.inproc.bind(endpoint, &self.signal, &hello)?;
        let options = self.options_now();
        let key = self.endpoints.insert(Endpoint {
            name: endpoint.to_owned(),
            role: Role::InprocListener,
            options,
            secure: None,
            is_leaving: false,
        });
        for end in early {
            self.attach_pipe(end, Some(key));
        }
        // What they have said lies in the pipes, and has rung for nothing that was bound.
        self.scan_pipes();
        self.last_endpoint = endpoint.to_owned();
        Ok(())
    }
}
