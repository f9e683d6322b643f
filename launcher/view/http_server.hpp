// serve_tcp and serve_unix run a launcher's HTTP server, which answers by the table of routes.hpp on the
// executor's thread. An executor that stands still does not answer.
//
// A caller cannot disturb the launcher: there is one request for a connection, kTimeout for all of it,
// kMaxRequest bytes, and kMaxConnections at one time. Of the connections that have not asked yet one gives
// way to a new one, so that a caller that holds connections open keeps no other out: the oldest that has said
// nothing at all in kFirstWord, else the oldest. At a unix socket further
// callers wait to be let in while any of kMaxConnections is answered. An answer that goes on (ViewStream) has
// no limit of time and counts no more among those; there are kMaxStreams at one time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "launcher/view/routes.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

struct ServerLimits {
    static constexpr std::size_t kMaxConnections = 64;
    static constexpr std::size_t kMaxStreams = 64;
    static constexpr std::size_t kMaxRequest = 4096;
    static constexpr std::chrono::milliseconds kTimeout{5000};
    static constexpr std::chrono::milliseconds kFirstWord{100};

    std::size_t connections = kMaxConnections;
    std::chrono::milliseconds timeout = kTimeout;
    std::chrono::milliseconds first_word = kFirstWord;
};

// Listens for Caller::anybody until the executor's context ends. Returns the port, which is `port` unless
// that is 0. Throws as listen_tcp does.
std::uint16_t serve_tcp(const boost::asio::any_io_executor& executor, ListenScope scope, std::uint16_t port,
                        ViewSource source, const ServerLimits& limits = {});

// Answers processes of the same user (or root), as Caller::own_user, at a unix socket that listens, until the
// executor's context ends; others are not answered.
void serve_unix(const boost::asio::any_io_executor& executor, OwnedDescriptor listener, ViewSource source,
                const ServerLimits& limits = {});

}  // namespace launch
}  // namespace ddprun
