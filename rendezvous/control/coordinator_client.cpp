#include "rendezvous/control/coordinator_client.hpp"

#include <fmt/core.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/control/coordinator_claims.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

using asio::ip::tcp;

std::chrono::steady_clock::duration overslept(std::chrono::steady_clock::time_point due,
                                              std::chrono::steady_clock::time_point now) {
    const auto late = now - due;
    return late > std::chrono::seconds(1) ? late : std::chrono::steady_clock::duration(0);
}

class CoordinatorClient::Impl : public std::enable_shared_from_this<Impl> {
  public:
    Impl(const asio::any_io_executor& executor, CoordinatorClientOptions options,
         CoordinatorClientEvents events)
        : executor_(executor),
          options_(std::move(options)),
          events_(std::move(events)),
          claims_(options_.hello),
          pause_(executor),
          close_deadline_(executor),
          answer_deadline_(executor),
          lease_end_(executor),
          suspend_deadline_(executor),
          random_(random_number<std::uint32_t>("pauses")) {}

    void join() {
        asio::co_spawn(
            executor_, [self = shared_from_this()] { return self->converse(); },
            [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            });
    }

    void send(const ControlMessage& message) {
        if (session_) session_->send(message, false);
    }

    const CallerAddress& caller_address() const { return caller_address_; }

    void suspend(std::function<void()> done) {
        if (!session_) return done();
        on_suspended_ = std::move(done);
        session_->send(Suspended{}, false);
        suspend_deadline_.expires_after(kSuspendTimeout);
        suspend_deadline_.async_wait([self = shared_from_this()](boost::system::error_code) {
            if (self->on_suspended_) std::exchange(self->on_suspended_, nullptr)();
        });
    }

    void resume() {
        send(Heartbeat{});
        if (!lease_) return;
        lease_->resume(TimePoint::clock::now());
        await_lease_end();
    }

    void begin_round(const ControlMessage& ready) {
        if (lease_ && gives_up()) return;
        suspend_lease();  // as long as the workers are being started
        events_.on_message(ready);
        if (!lease_) return;
        send(Heartbeat{});
        lease_->started(TimePoint::clock::now());
        await_lease_end();
    }

    std::optional<CoordinatorLoss> overdue_loss() {
        if (!lease_ || lease_->is_suspended()) return std::nullopt;
        lease_->look(TimePoint::clock::now());
        if (!has_passed(lease_->workers_end().at + lease_->terms().limit)) return std::nullopt;
        return lease_loss(*lease_);
    }

    void close(std::function<void()> on_closed) {
        silent_ = true;
        end_lease();
        on_closed_ = std::move(on_closed);
        pause_.cancel();
        if (calling_ != nullptr) calling_->close();
        if (!session_) return closed();
        hang_up(Goodbye{}, kCloseTimeout);
    }

    // The owner is gone: nothing is reported any more.
    void abandon() {
        silent_ = true;
        on_closed_ = on_suspended_ = nullptr;
        pause_.cancel();
        close_deadline_.cancel();
        answer_deadline_.cancel();
        lease_end_.cancel();
        suspend_deadline_.cancel();
        events_.on_lease = nullptr;
        if (calling_ != nullptr) calling_->close();
        if (session_) session_->close();
    }

  private:
    asio::awaitable<void> converse() {
        auto self = shared_from_this();
        session_ = co_await call();
        if (!session_) co_return;
        hello_time_ = TimePoint::clock::now();
        gave_up_ = false;
        session_->send(options_.hello, false);
        await_answer();
        const bool closed_there = co_await session_->run([this](const ControlMessage& message) {
            note_answer();
            receive(message);
        });
        loss_.is_dead = closed_there && loss_.kind == CoordinatorLoss::Kind::broken && !gave_up_;
        session_.reset();
        waiting_.clear();
        close_deadline_.cancel();
        answer_deadline_.cancel();
        end_lease();
        cause_ = loss_.cause;
        silent_ ? closed() : events_.on_lost(loss_);
    }

    void await_answer() {
        is_answered_ = false;
        loss_ = stranger_loss(options_.coordinator);
        const TimePoint latest = hello_time_ + options_.answer_timeout.value_or(kAnswerTimeout);
        const bool joins_late = !options_.answer_timeout && options_.join_deadline < latest;
        answer_deadline_.expires_at(joins_late ? std::min(latest, options_.join_deadline + kRefusalTime)
                                               : latest);
        answer_deadline_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
            if (cancelled || self->is_answered_ || !self->session_) return;
            self->loss_ = unanswered_loss(self->options_.coordinator);
            self->session_->close();
        });
    }

    void note_answer() {
        if (std::exchange(is_answered_, true)) return;
        answer_deadline_.cancel();
        pause_length_ = kFirstPause;
        loss_ = {CoordinatorLoss::Kind::broken,
                 fmt::format("the connection to {} was lost", to_string(options_.coordinator))};
    }

    void receive(const ControlMessage& message) {
        if (silent_ || gave_up_) return;
        if (!claims_.accept(message)) return drop();
        if (lease_) lease_->look(TimePoint::clock::now());
        if (const auto* welcome = std::get_if<Welcome>(&message)) {
            lease_.emplace(HeartbeatTerms{std::chrono::milliseconds(welcome->heartbeat_ms)}, hello_time_);
            session_->limit_silence(lease_->terms().connection_silence());
            caller_address_.seen = welcome->seen_at;
            return await_lease_end();
        }
        if (const auto* question = std::get_if<Heartbeat>(&message)) {
            // An answer behind the word that this agent will be silent would take that back.
            if (!lease_ || on_suspended_) return;
            // It would say that this agent has begun the round, or come too late, though the other machine
            // would take it.
            if ((question->number == 0 && !waiting_.empty()) || gives_up()) return;
            session_->send(lease_->answer(*question, TimePoint::clock::now()), false);
            await_lease_end();
            return take_waiting();
        }
        // Others may have gone on while this process stood still: what they grant those who are told is over.
        const auto* stop = std::get_if<Stop>(&message);
        if (stop != nullptr && stop->is_awaited && (is_in_doubt() || !waiting_.empty())) return give_up();
        // It may have waited while this process stood still, and the others have begun the next round by now.
        const bool begins_late = is_in_doubt() && std::holds_alternative<RoundReady>(message);
        if (begins_late) send(Heartbeat{Heartbeat::kAskMe});
        const bool is_end =
            std::holds_alternative<GivenUp>(message) || std::holds_alternative<SteppedDown>(message);
        if (begins_late || (!waiting_.empty() && !is_end)) return waiting_.push_back(message);
        take(message);
    }

    bool is_in_doubt() const { return lease_ && lease_->is_in_doubt(TimePoint::clock::now()); }

    void take_waiting() {
        if (is_in_doubt()) return;
        for (const ControlMessage& message : std::exchange(waiting_, {})) {
            if (session_ && !silent_ && !gave_up_) take(message);
        }
    }

    void take(const ControlMessage& message) {
        if (std::holds_alternative<Suspended>(message)) {
            suspend_lease();
            suspend_deadline_.cancel();
        } else if (std::holds_alternative<RoundReady>(message)) {
            begin_round(message);
        } else if (const auto* given_up = std::get_if<GivenUp>(&message)) {
            loss_ = given_up_loss(lease_, given_up->reason);
        } else {
            if (const auto* stepped_down = std::get_if<SteppedDown>(&message))
                loss_ = {CoordinatorLoss::Kind::left, stepped_down->reason};
            events_.on_message(message);
        }
    }

    void drop() {
        gave_up_ = true;
        loss_ = {CoordinatorLoss::Kind::broken,
                 fmt::format("what listens at {} said what cannot be true", to_string(options_.coordinator))};
        session_->close();
    }

    void tell_lease(const std::optional<LeaseEnd>& end) {
        if (events_.on_lease) events_.on_lease(end);
    }

    void suspend_lease() {
        if (!lease_) return;
        lease_->suspend();
        lease_end_.cancel();
        tell_lease(std::nullopt);
    }

    // Workers that were to stand still do not go on.
    void end_lease() {
        const bool is_over = lease_ && !lease_->is_suspended() && has_passed(lease_->workers_end().at);
        if (lease_) tell_lease(is_over ? std::optional<LeaseEnd>(TimePoint::clock::now()) : std::nullopt);
        lease_.reset();
        lease_end_.cancel();
    }

    void await_lease_end() {
        tell_lease(lease_->workers_end());
        lease_end_.expires_at(lease_->next_look());
        lease_end_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
            if (cancelled || !self->lease_ || !self->session_ || self->lease_->is_suspended()) return;
            self->lease_->look(TimePoint::clock::now());
            if (!self->gives_up()) self->await_lease_end();
        });
    }

    // If the lease is over.
    bool gives_up() {
        if (!lease_->is_over(TimePoint::clock::now())) return false;
        if (session_->all_arrived()) lease_->all_arrived();
        if (!lease_->is_over(TimePoint::clock::now())) return false;
        give_up();
        return true;
    }

    void give_up() {
        loss_ = lease_loss(*lease_);
        gave_up_ = true;
        // The connection may bring the word to the coordinator yet; whether or not, it ends before the lease
        // does.
        hang_up(LeaseOver{}, lease_->terms().margin() / 2);
    }

    void hang_up(const ControlMessage& last, std::chrono::milliseconds bound) {
        session_->send(last, true);
        close_deadline_.expires_after(bound);
        close_deadline_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
            if (!cancelled && self->session_) self->session_->close();
        });
    }

    // The conversation, in which nothing is said yet; nothing as connect() says.
    asio::awaitable<std::shared_ptr<ControlChannel>> call() {
        if (options_.in_process && !silent_) co_return options_.in_process();
        auto socket = co_await connect();
        if (!socket) co_return nullptr;
        ddprun::limit_silence(*socket, HeartbeatTerms{}.connection_silence());
        note_addresses(*socket);
        if (options_.key) co_return co_await call_with_key(std::move(*socket));
        co_await write_magic(*socket);
        co_return std::make_shared<ControlSession>(std::move(*socket), kMaxPendingBytes);
    }

    // Nothing: it was closed meanwhile, or came to nothing, which is reported.
    asio::awaitable<std::shared_ptr<ControlChannel>> call_with_key(tcp::socket socket) {
        calling_ = &socket;
        const TimePoint start = TimePoint::clock::now();
        const auto sealed = co_await call_sealed(socket, SealedPurpose::agent, *options_.key);
        calling_ = nullptr;
        if (silent_) co_return nullptr;
        if (sealed.keys) {
            refused_until_.reset();
            co_return std::make_shared<ControlSession>(std::move(socket), kMaxPendingBytes, "",
                                                       SealedRecords(*sealed.keys));
        }
        is_answered_ = false;
        const bool was_silent = TimePoint::clock::now() - start >= kSealTimeout;
        loss_ = was_silent ? unanswered_loss(options_.coordinator) : stranger_loss(options_.coordinator);
        cause_ = loss_.cause;
        if (sealed.proof == Proof::none) {
            events_.on_lost(loss_);
            co_return nullptr;
        }
        const Refused refused = secret_is_of_no_use(sealed.proof, to_string(options_.coordinator));
        if (!refused_until_) refused_until_ = std::min(start + kUnprovenTime, options_.join_deadline);
        if (!options_.hello.seeks_port && !has_passed(*refused_until_)) {
            events_.on_trouble(refused.reason);
            if (!silent_) co_return co_await call();
            co_return nullptr;
        }
        events_.on_message(refused);
        if (!silent_) events_.on_lost(loss_);
        co_return nullptr;
    }

    // A connected socket; nothing if the client was closed meanwhile or the deadline passed (which is
    // reported).
    asio::awaitable<std::optional<tcp::socket>> connect() {
        if (!is_answered_) co_await pause();
        last_try_ = TimePoint::clock::now();
        while (!silent_) {
            // If this process stood still, it has not tried meanwhile.
            const TimePoint now = TimePoint::clock::now();
            options_.join_deadline +=
                overslept(std::exchange(last_try_, now) + kAttemptTimeout + kLongestPause, now);
            if (has_passed(options_.join_deadline)) {
                events_.on_lost({CoordinatorLoss::Kind::unreached, cause_});
                co_return std::nullopt;
            }
            try {
                const auto timeout = std::min(time_until(options_.join_deadline), kAttemptTimeout);
                co_return co_await async_connect_tcp(options_.coordinator, timeout);
            } catch (const boost::system::system_error& error) {
                cause_ = error.what();
            }
            if (silent_) break;
            events_.on_trouble(cause_);
            co_await pause();
        }
        co_return std::nullopt;
    }

    // Nothing tells when the coordinator's node starts to listen, so this is one of the few places that poll.
    asio::awaitable<void> pause() {
        std::uniform_real_distribution<double> jitter(0.5, 1.0);
        auto next = std::chrono::duration_cast<std::chrono::milliseconds>(pause_length_ * jitter(random_));
        pause_.expires_at(std::min(TimePoint::clock::now() + next, options_.join_deadline));
        boost::system::error_code cancelled;
        co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        pause_length_ = std::min(2 * pause_length_, kLongestPause);
    }

    void note_addresses(const tcp::socket& socket) {
        boost::system::error_code error;  // A connection that is broken already has no addresses.
        const auto local = socket.local_endpoint(error);
        if (!error) caller_address_ = {local.address().to_string(), ""};
        const auto remote = socket.remote_endpoint(error);
        if (!error) options_.hello.reached_at = remote.address().to_string();
        if (options_.on_connected) options_.on_connected(options_.hello, caller_address_.local);
    }

    asio::awaitable<void> write_magic(tcp::socket& socket) {
        boost::system::error_code ignored;  // A broken connection shows itself at the first read.
        co_await asio::async_write(socket, asio::buffer(kControlMagic),
                                   asio::redirect_error(asio::use_awaitable, ignored));
    }

    void closed() {
        if (on_closed_) asio::post(executor_, std::exchange(on_closed_, nullptr));
    }

    static constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;
    asio::any_io_executor executor_;
    CoordinatorClientOptions options_;
    CallerAddress caller_address_;
    CoordinatorClientEvents events_;
    CoordinatorClaims claims_;
    asio::steady_timer pause_;
    std::chrono::milliseconds pause_length_ = kFirstPause;  // of the next one
    asio::steady_timer close_deadline_;
    asio::steady_timer answer_deadline_;
    bool is_answered_ = true;  // the last Hello, if there was one
    std::string cause_;        // why there is no connection
    asio::steady_timer lease_end_;
    asio::steady_timer suspend_deadline_;
    std::function<void()> on_suspended_;
    std::optional<HeartbeatLease> lease_;
    std::vector<ControlMessage> waiting_;  // until it is known that this agent is in the round
    TimePoint last_try_;
    TimePoint hello_time_;
    CoordinatorLoss loss_;  // what it will have been when the connection ends
    std::mt19937 random_;
    std::shared_ptr<ControlChannel> session_;
    std::function<void()> on_closed_;
    tcp::socket* calling_ = nullptr;          // its first words are being said
    std::optional<TimePoint> refused_until_;  // by somebody who has proven nothing
    bool silent_ = false;
    bool gave_up_ = false;  // the coordinator of this connection
};

CoordinatorClient::CoordinatorClient(const asio::any_io_executor& executor, CoordinatorClientOptions options,
                                     CoordinatorClientEvents events)
    : impl_(std::make_shared<Impl>(executor, std::move(options), std::move(events))) {}

CoordinatorClient::~CoordinatorClient() { impl_->abandon(); }

void CoordinatorClient::join() { impl_->join(); }

const CallerAddress& CoordinatorClient::caller_address() const { return impl_->caller_address(); }

void CoordinatorClient::send(const ControlMessage& message) { impl_->send(message); }

void CoordinatorClient::suspend(std::function<void()> done) { impl_->suspend(std::move(done)); }

void CoordinatorClient::resume() { impl_->resume(); }

std::optional<CoordinatorLoss> CoordinatorClient::overdue_loss() const { return impl_->overdue_loss(); }

void CoordinatorClient::close(std::function<void()> on_closed) { impl_->close(std::move(on_closed)); }

}  // namespace job
}  // namespace ddprun
