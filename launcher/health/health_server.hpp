// HealthServer: answers every GET with 200 and a text, for those who watch whether a process is alive (a kubelet's probe).
// It answers on the executor's thread, so an executor that stands still is one that is not alive.
//
// Anybody may call. So: one request for a connection, kTimeout for all of it, kMaxRequest bytes, and kMaxConnections at one
// time, of which the oldest gives way to a new one, so that nobody who holds connections open keeps a probe out.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::inline launch {

struct HealthLimits {
    static constexpr std::size_t kMaxConnections = 16;
    static constexpr std::size_t kMaxRequest = 4096;
    static constexpr std::chrono::milliseconds kTimeout{5000};

    std::size_t connections = kMaxConnections;
    std::chrono::milliseconds timeout = kTimeout;
};

// Listens on all addresses, as a kubelet calls from outside of the pod, until the executor's context ends; `text` is asked
// on the executor's thread. Returns the port, which is `port` unless that is 0. Throws as listen_tcp does.
std::uint16_t serve_health(const boost::asio::any_io_executor& executor, std::uint16_t port,
                           std::function<std::string()> text, const HealthLimits& limits = {});

}  // namespace ddprun::inline launch
