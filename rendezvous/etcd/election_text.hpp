// unelected_text() and the others: what an election by etcd tells its users. Pure.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"

namespace ddprun {
inline namespace job {

// Returns why the job does not begin: no host until the deadline; refused_text(): or etcd says no.
std::string unelected_text(const EtcdOptions& etcd, std::chrono::milliseconds join_timeout,
                           const std::string& cause);
std::string refused_text(const EtcdOptions& etcd, const std::string& cause);

// Returns why the job does not go on: no agent leads it until the deadline; unknown_round_text(): or ever,
// since the record is gone.
std::string unclaimed_text(const EtcdOptions& etcd, const std::string& cause);
std::string unknown_round_text(const EtcdOptions& etcd);

// Returns what is waited for while another agent's key is there.
std::string waiting_text(const HostRecord& host);

// Returns why a host that lost its key leads no more rounds.
std::string deposed_text(const HostRecord& host);

}  // namespace job
}  // namespace ddprun
