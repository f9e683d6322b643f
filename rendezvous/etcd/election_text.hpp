// What an election says to people, each a sentence without its stop. Pure.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/etcd/host_record.hpp"

namespace ddprun::inline job {

// Why the job does not begin: no host until the deadline, …
std::string unelected_text(const EtcdOptions& etcd, std::chrono::milliseconds join_timeout,
                           const std::string& cause);
// … or etcd says no.
std::string refused_text(const EtcdOptions& etcd, const std::string& cause);
// Why it does not go on: nobody leads it until the deadline, …
std::string unclaimed_text(const EtcdOptions& etcd, const std::string& cause);
// … or ever, since the record is gone.
std::string unknown_round_text(const EtcdOptions& etcd);
// What is waited for while another agent's key is there.
std::string waiting_text(const HostRecord& host);
// Why a host that lost its key leads no more rounds.
std::string deposed_text(const HostRecord& host);

}  // namespace ddprun::inline job
