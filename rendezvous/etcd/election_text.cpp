#include "rendezvous/etcd/election_text.hpp"

#include <fmt/core.h>

#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

std::string unelected_text(const EtcdOptions& etcd, std::chrono::milliseconds join_timeout,
                           const std::string& cause) {
    return fmt::format(
        "no host was found in etcd (--rdzv-endpoint {}) within {} s: {}; --join-timeout SECONDS sets how long to wait",
        to_string(etcd.endpoints), std::chrono::duration_cast<std::chrono::seconds>(join_timeout).count(),
        cause.empty() ? "the last one is gone, and there was no time to become it" : cause);
}

std::string refused_text(const EtcdOptions& etcd, const std::string& cause) {
    return fmt::format("etcd refuses to serve the rendezvous (--rdzv-endpoint {}): {}",
                       to_string(etcd.endpoints), cause);
}

std::string unclaimed_text(const EtcdOptions& etcd, const std::string& cause) {
    return fmt::format("etcd at {} says who leads the job next, and it was in vain to wait for that: {}",
                       to_string(etcd.endpoints), cause);
}

std::string unknown_round_text(const EtcdOptions& etcd) {
    return fmt::format(
        "etcd at {} does not know the job's last round any more, so nobody can say who may go on",
        to_string(etcd.endpoints));
}

std::string waiting_text(const HostRecord& host) {
    if (host.endpoint.empty())
        return fmt::format("the agent on {} (pid {}) was elected, but has not said where it hosts", host.host,
                           host.pid);
    return fmt::format("the agent on {} (pid {}) hosts at {}, as etcd says", host.host, host.pid,
                       host.endpoint);
}

std::string deposed_text(const HostRecord& host) {
    return fmt::format("the agent on {} (pid {}) leads the job now, as etcd says", host.host, host.pid);
}

}  // namespace job
}  // namespace ddprun
