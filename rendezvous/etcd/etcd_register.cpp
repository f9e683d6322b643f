#include "rendezvous/etcd/etcd_register.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;
using TimePoint = EtcdClient::TimePoint;

namespace {

constexpr std::size_t kMaxRoundDepth = 2;

struct RoundRules : JsonRules {
    static constexpr std::size_t kMaxText = 1024;
};

std::optional<RoundRecord> read_round(const std::optional<std::string>& json) {
    const auto root = json ? parse_json_object(*json, kMaxRoundDepth) : std::nullopt;
    RoundRecord record;
    if (!root || !take_members<RoundRules>(*root, record)) return std::nullopt;
    return record;
}

}  // namespace

EtcdRegister::EtcdRegister(const EtcdOptions& etcd, const std::string& run_id, std::chrono::milliseconds ttl)
    : host_key_(ddprun::host_key(etcd.prefix, run_id)),
      round_key_(round_key(etcd.prefix, run_id)),
      ttl_(ttl),
      client_(etcd) {}

template <class Value>
std::optional<Value> EtcdRegister::read(const EtcdAnswer& answer,
                                        std::optional<Value> (*reader)(std::string_view)) {
    is_refused_ = answer.kind == EtcdAnswer::Kind::refused;
    if (answer.kind != EtcdAnswer::Kind::good) {
        cause_ = answer.text;
        return std::nullopt;
    }
    auto value = reader(answer.text);
    if (!value)
        cause_ = fmt::format("what listens at {} does not answer as etcd does",
                             to_string(client_.last_endpoint()));
    return value;
}

asio::awaitable<std::optional<EtcdRegister::View>> EtcdRegister::look(TimePoint deadline) {
    auto host = read(co_await client_.ask(read_key(host_key_), deadline), read_key_state);
    if (!host) co_return std::nullopt;
    auto round = read(co_await client_.ask(read_key(round_key_), deadline), read_key_state);
    if (!round) co_return std::nullopt;
    // The answer to the request that wrote it may have been lost.
    has_recorded_ = round_lease_ && round->lease == round_lease_->id;
    auto record = read_round(round->value);
    co_return View{std::move(*host), std::move(*round), std::move(record)};
}

asio::awaitable<bool> EtcdRegister::await_change(const View& view, bool of_host, TimePoint deadline) {
    EtcdRequest request = watch_key(round_key_, view.round.revision + 1);
    if (of_host) request = watch_key(host_key_, view.host.revision + 1);
    const auto answer = co_await client_.watch(std::move(request), deadline);
    co_return answer.kind == EtcdAnswer::Kind::good;
}

// A lease that there is may have run out; then what is bound to it is refused, and it is forgotten.
asio::awaitable<bool> EtcdRegister::lease(std::optional<Lease>& lease, std::int64_t ttl_s,
                                          TimePoint deadline) {
    if (!lease) lease = read(co_await client_.ask(grant_lease(ttl_s), deadline), read_granted);
    co_return lease.has_value();
}

std::int64_t EtcdRegister::round_ttl_s() const { return kRoundTtls * host_lease_->ttl_s; }

asio::awaitable<std::optional<bool>> EtcdRegister::take(const View& view, std::string host,
                                                        TimePoint deadline) {
    const std::int64_t ttl_s =
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(ttl_).count());
    co_await drop_host(deadline);
    if (!co_await lease(host_lease_, ttl_s, deadline)) co_return std::nullopt;
    std::vector<KeyWrite> writes{{host_key_, std::move(host), host_lease_->id}};
    const bool takes_round = view.round.value && !is_own_round(view);
    if (takes_round) {
        co_await drop(round_lease_, deadline);
        if (!co_await lease(round_lease_, round_ttl_s(), deadline)) co_return std::nullopt;
        writes.push_back({round_key_, *view.round.value, round_lease_->id});
    }
    const auto request = write_keys({{KeyTest::Kind::change, host_key_, view.host.change},
                                     {KeyTest::Kind::change, round_key_, view.round.change}},
                                    writes);
    const auto written = read(co_await client_.ask(request, deadline), read_written);
    if (!written) co_return std::nullopt;
    if (!*written) co_await drop_host(deadline);
    if (*written) has_recorded_ = view.round.value.has_value();
    co_return written;
}

asio::awaitable<std::optional<bool>> EtcdRegister::write_host(std::string host, TimePoint deadline) {
    const auto request = write_keys({{KeyTest::Kind::lease, host_key_, host_lease_->id}},
                                    {{host_key_, std::move(host), host_lease_->id}});
    co_return read(co_await client_.ask(request, deadline), read_written);
}

asio::awaitable<std::optional<bool>> EtcdRegister::record(const RoundRecord& record, bool anew,
                                                          TimePoint deadline) {
    if (anew) co_await drop(round_lease_, deadline);
    if (!co_await lease(round_lease_, round_ttl_s(), deadline)) co_return std::nullopt;
    const KeyTest round = anew ? KeyTest{KeyTest::Kind::change, round_key_, 0}
                               : KeyTest{KeyTest::Kind::lease, round_key_, round_lease_->id};
    const auto request =
        write_keys({{KeyTest::Kind::lease, host_key_, host_lease_->id}, round},
                   {{round_key_, boost::json::serialize(json_of<RoundRules>(record)), round_lease_->id}});
    const auto written = read(co_await client_.ask(request, deadline), read_written);
    if (written) has_recorded_ = *written;
    co_return written;
}

asio::awaitable<std::optional<bool>> EtcdRegister::keep(TimePoint deadline) {
    const auto kept = read(co_await client_.ask(keep_lease(host_lease_->id), deadline), read_kept);
    if (!kept) co_return std::nullopt;
    if (has_recorded_) {
        const auto round = read(co_await client_.ask(keep_lease(round_lease_->id), deadline), read_kept);
        if (!round) co_return std::nullopt;
    }
    co_return kept->ttl_s > 0;
}

asio::awaitable<void> EtcdRegister::drop(std::optional<Lease>& lease, TimePoint deadline) {
    if (!lease) co_return;
    const LeaseId id = std::exchange(lease, std::nullopt)->id;
    co_await client_.ask(revoke_lease(id), deadline);
}

asio::awaitable<void> EtcdRegister::drop_host(TimePoint deadline) { co_await drop(host_lease_, deadline); }

asio::awaitable<void> EtcdRegister::drop_round(TimePoint deadline) {
    has_recorded_ = false;
    co_await drop(round_lease_, deadline);
}

std::string EtcdRegister::own_address() const {
    const std::string& used = client_.local_address();
    const std::string& asked = client_.last_endpoint().host;
    if (!is_loopback_address(used) || asked == "localhost" || is_loopback_address(asked)) return used;
    // A machine's own name often stands for an address of loopback.
    for (const LocalAddress& local : local_addresses()) {
        if (!local.is_loopback) return local.address;
    }
    return used;
}

std::chrono::milliseconds EtcdRegister::keep_period() const {
    return std::chrono::milliseconds(host_lease_->ttl_s * 1000 / 3);
}

}  // namespace job
}  // namespace ddprun
