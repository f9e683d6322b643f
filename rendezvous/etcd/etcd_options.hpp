// EtcdOptions: where etcd is, how it is asked, and under which prefix jobs have their keys. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/etcd/tls_files.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

inline constexpr std::uint16_t kDefaultEtcdPort = 2379;

struct EtcdOptions {
    std::vector<Endpoint> endpoints;           // of one cluster, at least one
    std::string prefix = "/torchelastic/p2p";  // torchrun's; without a slash at its end
    std::optional<TlsFiles> tls;               // nothing: it is asked by plain HTTP
};

// HOST or HOST:PORT, with commas between; nothing if one of them has another form.
std::optional<std::vector<Endpoint>> parse_etcd_endpoints(std::string_view text);

// "gpu01:2379,gpu02:2379"
std::string to_string(const std::vector<Endpoint>& endpoints);

}  // namespace ddprun::inline job
