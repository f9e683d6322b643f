#include "rendezvous/coordinator/coordinator_client.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <random>
#include <utility>

#include "rendezvous/coordinator/control_session.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {
constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;
}

class CoordinatorClient::Impl : public std::enable_shared_from_this<Impl> {
  public:
    Impl(const asio::any_io_executor& executor, Endpoint coordinator, Hello hello, TimePoint join_deadline,
         CoordinatorClientEvents events)
        : executor_(executor),
          coordinator_(std::move(coordinator)),
          hello_(std::move(hello)),
          join_deadline_(join_deadline),
          events_(std::move(events)),
          pause_(executor),
          close_limit_(executor),
          random_(std::random_device{}()) {}

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

    const std::string& local_address() const { return local_address_; }

    void close(std::function<void()> on_closed) {
        silent_ = true;
        on_closed_ = std::move(on_closed);
        pause_.cancel();
        if (!session_) return closed();
        session_->send(Goodbye{}, true);
        close_limit_.expires_after(kCloseTimeout);
        close_limit_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
            if (!cancelled && self->session_) self->session_->close();
        });
    }

    // The owner is gone: nothing is reported any more.
    void abandon() {
        silent_ = true;
        on_closed_ = nullptr;
        pause_.cancel();
        close_limit_.cancel();
        if (session_) session_->close();
    }

  private:
    asio::awaitable<void> converse() {
        auto self = shared_from_this();
        auto socket = co_await connect();
        if (!socket) co_return;
        limit_silence(*socket, kControlSilenceLimit);
        note_addresses(*socket);
        co_await write_magic(*socket);
        session_ = std::make_shared<ControlSession>(std::move(*socket), kMaxPendingBytes);
        session_->send(hello_, false);
        co_await session_->run({}, [this](const ControlMessage& message) {
            if (!silent_) events_.on_message(message);
        });
        session_.reset();
        close_limit_.cancel();
        if (silent_) {
            closed();
        } else {
            events_.on_lost("the connection to " + to_string(coordinator_) + " was lost", false);
        }
    }

    // A connected socket; nothing if the client was closed meanwhile or the deadline passed (which is
    // reported).
    asio::awaitable<std::optional<tcp::socket>> connect() {
        auto pause = kFirstPause;
        std::string cause;
        while (!silent_) {
            const auto now = TimePoint::clock::now();
            if (now >= join_deadline_) {
                events_.on_lost(cause, true);
                co_return std::nullopt;
            }
            auto left = std::chrono::ceil<std::chrono::milliseconds>(join_deadline_ - now);
            try {
                co_return co_await async_connect_tcp(coordinator_, std::min(left, kAttemptTimeout));
            } catch (const boost::system::system_error& error) {
                cause = error.what();
            }
            if (silent_) break;
            events_.on_trouble(cause);
            // Nothing tells when the coordinator's node starts to listen, so this is one of the few places
            // that poll.
            std::uniform_real_distribution<double> jitter(0.5, 1.0);
            auto next = std::chrono::duration_cast<std::chrono::milliseconds>(pause * jitter(random_));
            pause_.expires_at(std::min(TimePoint::clock::now() + next, join_deadline_));
            boost::system::error_code cancelled;
            co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
            pause = std::min(2 * pause, kLongestPause);
        }
        co_return std::nullopt;
    }

    void note_addresses(const tcp::socket& socket) {
        boost::system::error_code error;  // A connection that is broken already has no addresses.
        const auto local = socket.local_endpoint(error);
        if (!error) local_address_ = local.address().to_string();
        const auto remote = socket.remote_endpoint(error);
        if (!error) hello_.reached_at = remote.address().to_string();
    }

    asio::awaitable<void> write_magic(tcp::socket& socket) {
        boost::system::error_code ignored;  // A broken connection shows itself at the first read.
        co_await asio::async_write(socket, asio::buffer(kControlMagic),
                                   asio::redirect_error(asio::use_awaitable, ignored));
    }

    void closed() {
        if (on_closed_) asio::post(executor_, std::exchange(on_closed_, nullptr));
    }

    asio::any_io_executor executor_;
    Endpoint coordinator_;
    Hello hello_;
    std::string local_address_;
    TimePoint join_deadline_;
    CoordinatorClientEvents events_;
    asio::steady_timer pause_;
    asio::steady_timer close_limit_;
    std::mt19937 random_;
    std::shared_ptr<ControlSession> session_;
    std::function<void()> on_closed_;
    bool silent_ = false;
};

CoordinatorClient::CoordinatorClient(const asio::any_io_executor& executor, Endpoint coordinator, Hello hello,
                                     TimePoint join_deadline, CoordinatorClientEvents events)
    : impl_(std::make_shared<Impl>(executor, std::move(coordinator), std::move(hello), join_deadline,
                                   std::move(events))) {}

CoordinatorClient::~CoordinatorClient() { impl_->abandon(); }

void CoordinatorClient::join() { impl_->join(); }

const std::string& CoordinatorClient::local_address() const { return impl_->local_address(); }

void CoordinatorClient::send(const ControlMessage& message) { impl_->send(message); }

void CoordinatorClient::close(std::function<void()> on_closed) { impl_->close(std::move(on_closed)); }

}  // namespace ddprun
