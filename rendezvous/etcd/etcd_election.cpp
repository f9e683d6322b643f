#include "rendezvous/etcd/etcd_election.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "rendezvous/etcd/election_table.hpp"
#include "rendezvous/etcd/etcd_client.hpp"
#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun {

namespace asio = boost::asio;

class EtcdElection::Impl : public std::enable_shared_from_this<Impl> {
  public:
    using Event = ElectionEvent;
    using Action = ElectionAction;

    Impl(const asio::any_io_executor& executor, ElectionOptions options, ElectionEvents events)
        : executor_(executor),
          options_(std::move(options)),
          events_(std::move(events)),
          key_(host_key(options_.etcd.prefix, options_.record.run_id)),
          client_(options_.etcd),
          interruption_(executor, TimePoint::max()),
          pause_(executor) {}

    void campaign(TimePoint deadline) {
        deadline_ = deadline;
        told_.reset();
        react(Event::campaign_asked);
    }

    void publish(const Endpoint& host) {
        options_.record.endpoint = to_string(host);
        is_published_ = false;
        react(Event::publish_asked);
    }

    void settle() { react(Event::host_found); }

    void withdraw(std::function<void()> done) {
        react(Event::withdraw_asked);
        on_withdrawn_ = std::move(done);
        if (!is_running_) withdrawn();
    }

    // The owner is gone: nothing is reported any more.
    void abandon() {
        events_ = {};
        on_withdrawn_ = nullptr;
        next_ = Action::rest;
        is_abandoned_ = true;
        interruption_.cancel();
    }

  private:
    void react(Event event) {
        const ElectionStep step = next_step(state_, event);
        state_ = step.next;
        if (step.action == Action::none) return;
        next_ = step.action;
        interruption_.cancel();
        if (std::exchange(is_running_, true)) return;
        asio::co_spawn(
            executor_, [self = shared_from_this()] { return self->run(); },
            [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            });
    }

    asio::awaitable<void> run() {
        using namespace asio::experimental::awaitable_operators;
        auto self = shared_from_this();
        while (next_ != Action::rest && next_ != Action::none) {
            const Action action = std::exchange(next_, Action::none);
            const auto first = co_await (carry_out(action) || interrupted());
            // Otherwise something else is to be done by now.
            if (first.index() == 0 && next_ == Action::none && !is_abandoned_) {
                const ElectionStep step = next_step(state_, std::get<0>(first));
                state_ = step.next;
                next_ = step.action;
            }
        }
        is_running_ = false;
        if (state_ == ElectionState::withdrawn) withdrawn();
    }

    asio::awaitable<void> interrupted() {
        boost::system::error_code cancelled;
        co_await interruption_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }

    void withdrawn() {
        if (on_withdrawn_) asio::post(executor_, std::exchange(on_withdrawn_, nullptr));
    }

    std::string own_address() const {
        const std::string& used = client_.local_address();
        const std::string& asked = client_.last_endpoint().host;
        if (!is_loopback_address(used) || asked == "localhost" || is_loopback_address(asked)) return used;
        // A machine's own name often stands for an address of loopback.
        for (const LocalAddress& local : local_addresses()) {
            if (!local.is_loopback) return local.address;
        }
        return used;
    }

    template <class Callback, class... Argument>
    void tell(Callback ElectionEvents::*event, Argument... argument) {
        asio::post(executor_, [self = shared_from_this(), event, argument...] {
            if (self->events_.*event) (self->events_.*event)(argument...);
        });
    }

    // What it leads to. It may be interrupted at every wait, and is then begun anew or not at all.
    asio::awaitable<Event> carry_out(Action action) {
        switch (action) {
            case Action::none:
            case Action::rest: break;
            case Action::announce:
                tell(&ElectionEvents::on_elected, Endpoint{own_address(), options_.port});
                co_return Event::key_kept;
            case Action::race:
            case Action::restore: co_return co_await race();
            case Action::follow: co_return co_await follow();
            case Action::keep: co_return co_await keep();
            case Action::give_up: tell(&ElectionEvents::on_failed, failure_); break;
            case Action::drop_lease: co_await drop_lease(); break;
        }
        co_return Event::key_gone;  // no news where these lead to
    }

    asio::awaitable<Event> race() {
        if (is_late()) co_return too_late();
        const auto key = co_await read_key_now();
        if (!key) co_return co_await in_vain();
        if (key->value) {
            // The answer to the request that wrote it may have been lost.
            if (lease_ && key->lease == lease_->id) co_return Event::key_won;
            co_await drop_lease();
            // A host that has lost its key has found one long ago.
            if (state_ == ElectionState::restoring) deadline_ = TimePoint::max();
            co_return Event::key_taken;
        }
        lease_ = read(co_await client_.ask(grant_lease(ttl_s()), latest()), read_granted);
        if (!lease_) co_return co_await in_vain();
        const std::string value = to_json(options_.record);
        const auto written =
            read(co_await client_.ask(create_key(key_, value, lease_->id), latest()), read_written);
        if (!written) co_return co_await in_vain();
        if (!*written) co_await drop_lease();
        if (*written) succeed();
        if (*written) told_.reset();
        is_published_ = *written && !options_.record.endpoint.empty();
        co_return *written ? Event::key_won : Event::key_taken;
    }

    asio::awaitable<Event> follow() {
        if (is_late()) co_return too_late();
        const auto key = co_await read_key_now();
        if (!key) co_return co_await in_vain();
        if (!key->value) co_return Event::key_gone;
        const auto record = read_host_record(*key->value);
        const auto host = record ? endpoint_of(*record) : std::nullopt;
        cause_ = record ? fmt::format("the agent on {} (pid {}) was elected, but has not said where it hosts",
                                      record->host, record->pid)
                        : fmt::format("the key {} in etcd is none of ddprun's", key_);
        if (!record) {
            tell(&ElectionEvents::on_trouble, cause_);
        } else {
            succeed();
        }
        if (host && std::exchange(told_, host) != host) tell(&ElectionEvents::on_host, *host);
        const auto answer = co_await client_.watch(watch_key(key_, key->revision + 1), limit());
        // The next look at the key tells whether etcd itself is in trouble.
        if (answer.kind != EtcdAnswer::Kind::good) co_await pause_for(kLongestPause);
        co_return Event::key_taken;
    }

    asio::awaitable<Event> keep() {
        if (!is_published_ && !options_.record.endpoint.empty()) {
            const auto request = rewrite_key(key_, to_json(options_.record), lease_->id);
            const auto written = read(co_await client_.ask(request, latest()), read_written);
            if (!written) co_return co_await in_vain();
            is_published_ = true;
            if (!*written) co_return Event::lease_lost;
        }
        succeed();
        // Often enough that two attempts may fail.
        co_await pause_for(std::chrono::milliseconds(lease_->ttl_s * 1000 / 3));
        const auto kept = read(co_await client_.ask(keep_lease(lease_->id), latest()), read_kept);
        if (!kept) co_return co_await in_vain();
        co_return kept->ttl_s > 0 ? Event::key_kept : Event::lease_lost;
    }

    asio::awaitable<void> drop_lease() {
        if (!lease_) co_return;
        const LeaseId id = std::exchange(lease_, std::nullopt)->id;
        co_await client_.ask(revoke_lease(id), TimePoint::clock::now() + kWithdrawTimeout);
    }

    asio::awaitable<std::optional<KeyState>> read_key_now() {
        co_return read(co_await client_.ask(read_key(key_), latest()), read_key_state);
    }

    // What a good answer says; else why there is none is kept for in_vain().
    template <class Value>
    std::optional<Value> read(const EtcdAnswer& answer, std::optional<Value> (*reader)(std::string_view)) {
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

    void succeed() {
        pause_length_ = kFirstPause;
        said_.clear();
    }

    asio::awaitable<Event> in_vain() {
        if (is_refused_)
            failure_ = fmt::format("etcd refuses to serve the rendezvous (--rdzv-endpoint {}): {}",
                                   to_string(options_.etcd.endpoints), cause_);
        if (is_refused_ && is_seeking()) co_return Event::refused;
        if (is_seeking()) {
            tell(&ElectionEvents::on_trouble, "etcd is of no help: " + cause_);
        } else if (std::exchange(said_, cause_) != cause_) {
            tell(&ElectionEvents::on_trouble, cause_);  // a host says once why it cannot keep its key
        }
        co_await pause();
        co_return Event::trouble;
    }

    // Nothing tells when etcd is there again.
    asio::awaitable<void> pause() {
        co_await pause_for(std::exchange(pause_length_, std::min(2 * pause_length_, kLongestPause)));
    }

    asio::awaitable<void> pause_for(std::chrono::milliseconds length) {
        pause_.expires_at(std::min(TimePoint::clock::now() + length, limit()));
        co_await pause_.async_wait(asio::use_awaitable);
    }

    // Asked for a host; a former host is not.
    bool is_seeking() const {
        const bool is_asking = state_ == ElectionState::racing || state_ == ElectionState::following;
        return is_asking && deadline_ != TimePoint::max();
    }

    // Whoever was told where the host is tries to reach it, for as long as there is time.
    TimePoint limit() const {
        const bool is_told = state_ == ElectionState::following && told_;
        return is_seeking() && !is_told ? deadline_ : TimePoint::max();
    }
    bool is_late() const { return has_passed(limit()); }
    TimePoint latest() const {
        return std::min(limit(),
                        TimePoint::clock::now() +
                            EtcdClient::kRequestTimeout * static_cast<int>(options_.etcd.endpoints.size()));
    }

    Event too_late() {
        failure_ = fmt::format(
            "no host was found in etcd (--rdzv-endpoint {}) within {} s: {}; --join-timeout SECONDS sets how "
            "long to wait",
            to_string(options_.etcd.endpoints),
            std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count(),
            cause_.empty() ? "the last one is gone, and there was no time to become it" : cause_);
        return Event::too_late;
    }

    std::int64_t ttl_s() const {
        return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options_.lease_ttl).count());
    }

    asio::any_io_executor executor_;
    ElectionOptions options_;
    ElectionEvents events_;
    std::string key_;
    EtcdClient client_;
    ElectionState state_ = ElectionState::resting;
    Action next_ = Action::none;  // to be carried out when what is being done has ended
    bool is_running_ = false;
    bool is_abandoned_ = false;
    asio::steady_timer interruption_;
    asio::steady_timer pause_;
    std::chrono::milliseconds pause_length_ = kFirstPause;  // of the next one
    TimePoint deadline_ = TimePoint::max();
    std::optional<Lease> lease_;
    bool is_published_ = true;  // what the record says of the endpoint
    std::optional<Endpoint> told_;
    std::string cause_;  // why there was no good answer
    std::string said_;   // of a host's trouble
    bool is_refused_ = false;
    std::string failure_;
    std::function<void()> on_withdrawn_;
};

EtcdElection::EtcdElection(const asio::any_io_executor& executor, ElectionOptions options,
                           ElectionEvents events)
    : impl_(std::make_shared<Impl>(executor, std::move(options), std::move(events))) {}

EtcdElection::~EtcdElection() { impl_->abandon(); }

void EtcdElection::campaign(TimePoint deadline) { impl_->campaign(deadline); }

void EtcdElection::publish(const Endpoint& host) { impl_->publish(host); }

void EtcdElection::settle() { impl_->settle(); }

void EtcdElection::withdraw(std::function<void()> done) { impl_->withdraw(std::move(done)); }

}  // namespace ddprun
