#include "rendezvous/net/connect.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// A Race outlives the coroutine that waits for it until the last of its attempts has heard that it is over.
class Race : public std::enable_shared_from_this<Race> {
  public:
    explicit Race(const asio::any_io_executor& executor) : news_(executor) {}

    void start(const tcp::endpoint& address) {
        const int fd =
            ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0) return error_.assign(errno, boost::system::system_category());
        attempts_.emplace_back(news_.get_executor(), address.protocol(), fd);
        ++pending_;
        attempts_.back().async_connect(
            address, [self = shared_from_this(), attempt = std::prev(attempts_.end())](
                         boost::system::error_code error) { self->finish(attempt, error); });
    }

    bool is_pending() const { return pending_ > 0; }
    bool is_won() const { return winner_.has_value(); }

    // Waits until an attempt ends, or for the head start of one that the next may join.
    asio::awaitable<void> wait(bool is_last) {
        is_last ? news_.expires_at(asio::steady_timer::time_point::max()) : news_.expires_after(kHeadStart);
        boost::system::error_code ended;
        co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, ended));
    }

    RaceResult take() { return {std::move(winner_), error_}; }

    void end() {
        for (tcp::socket& attempt : attempts_) {
            boost::system::error_code ignored;
            attempt.close(ignored);
        }
    }

  private:
    void finish(std::list<tcp::socket>::iterator attempt, boost::system::error_code error) {
        --pending_;
        if (error) {
            error_ = error;
        } else if (!is_won()) {
            winner_.emplace(std::move(*attempt));
        }
        news_.cancel();
    }

    asio::steady_timer news_;
    std::list<tcp::socket> attempts_;
    int pending_ = 0;
    std::optional<tcp::socket> winner_;
    boost::system::error_code error_ = asio::error::host_unreachable;
};

// Connects the descriptor; returns 0 or the errno.
int connect_one(const addrinfo& address, Deadline deadline, const OwnedDescriptor& fd) {
    if (!fd) return errno;
    if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    for (;;) {
        if (has_passed(deadline)) return ETIMEDOUT;
        pollfd event{fd.get(), POLLOUT, 0};
        const int ready = ::poll(&event, 1, poll_timeout(deadline));
        if (ready < 0 && errno != EINTR) return errno;
        if (ready <= 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        return error;
    }
}

// The outcome of an attempt to connect: a connected socket, or what went wrong. Not thrown, because an
// attempt that throws would not end a race against a timer.
struct Attempt {
    std::optional<tcp::socket> socket;
    std::string cause;
    bool is_refused = false;
};

// Sets `is_resolved` as soon as the name has been asked about, for who waits no longer.
asio::awaitable<Attempt> connect_to_any(const Endpoint& endpoint, bool& is_resolved) {
    const Resolved found = co_await async_resolve_host(endpoint.host);
    is_resolved = true;
    if (const auto* why = std::get_if<std::string>(&found))
        co_return Attempt{std::nullopt, fmt::format("cannot resolve {}: {}", endpoint.host, *why)};
    std::vector<tcp::endpoint> addresses;
    for (const std::string& address : std::get<std::vector<std::string>>(found))
        addresses.emplace_back(asio::ip::make_address(address), endpoint.port);
    const tcp::endpoint last = addresses.back();
    RaceResult result = co_await race_to_connect(std::move(addresses));
    if (result.socket) {
        set_no_delay(result.socket->native_handle());
        co_return Attempt{std::move(result.socket), {}};
    }
    std::string cause = fmt::format("cannot connect to {}: {}", to_string(endpoint), result.error.message());
    // A machine's own name is often 127.0.1.1 in its /etc/hosts.
    if (last.address().is_loopback())
        cause += fmt::format(" ({} is a loopback address, this machine itself)", last.address().to_string());
    co_return Attempt{std::nullopt, cause, result.error == asio::error::connection_refused};
}

}  // namespace

asio::awaitable<RaceResult> race_to_connect(std::vector<tcp::endpoint> addresses) {
    const auto race = std::make_shared<Race>(co_await asio::this_coro::executor);
    // It also ends if this coroutine is given up meanwhile.
    const std::shared_ptr<void> end(nullptr, [race](void*) { race->end(); });
    for (std::size_t next = 0; !race->is_won() && (next < addresses.size() || race->is_pending());) {
        if (next < addresses.size()) race->start(addresses[next++]);
        if (race->is_pending()) co_await race->wait(next == addresses.size());
    }
    co_return race->take();
}

int connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds timeout) {
    const Deadline deadline = Deadline::clock::now() + timeout;
    const auto found = resolve_host(endpoint.host, timeout);
    if (const auto* why = std::get_if<std::string>(&found))
        fail(Errc::unreachable, fmt::format("cannot resolve {}: {}", endpoint.host, *why));
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    const std::string port = std::to_string(endpoint.port);
    auto untried = static_cast<int>(std::get<0>(found).size());
    int last_error = EHOSTUNREACH;
    for (const std::string& numeric : std::get<0>(found)) {
        addrinfo* list = nullptr;
        if (::getaddrinfo(numeric.c_str(), port.c_str(), &hints, &list) != 0) continue;
        const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address(list, &::freeaddrinfo);
        OwnedDescriptor fd(
            ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
        // One that leads nowhere leaves the others their share of the time.
        const Deadline turn = Deadline::clock::now() + time_until(deadline) / untried--;
        last_error = connect_one(*address, turn, fd);
        if (last_error != 0) continue;
        set_no_delay(fd.get());
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
        return fd.release();
    }
    const Errc code = last_error == ETIMEDOUT ? Errc::timed_out : Errc::unreachable;
    fail(code, fmt::format("cannot connect to {}: {}", to_string(endpoint), std::strerror(last_error)));
}

asio::awaitable<tcp::socket> async_connect_tcp(Endpoint endpoint, std::chrono::milliseconds timeout) {
    using namespace asio::experimental::awaitable_operators;
    auto executor = co_await asio::this_coro::executor;
    asio::steady_timer deadline(executor, timeout);
    bool is_resolved = false;
    auto first = co_await (connect_to_any(endpoint, is_resolved) || deadline.async_wait(asio::use_awaitable));
    if (first.index() == 1) {
        fail(Errc::timed_out,
             is_resolved ? fmt::format("cannot connect to {}: timed out", to_string(endpoint))
                         : fmt::format("cannot resolve {}: {}", endpoint.host, no_answer_within(timeout)));
    }
    Attempt attempt = std::move(std::get<0>(first));
    if (!attempt.socket) fail(Errc::unreachable, attempt.cause);
    co_return std::move(*attempt.socket);
}

asio::awaitable<bool> is_refused(Endpoint endpoint, std::chrono::milliseconds timeout) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(co_await asio::this_coro::executor, timeout);
    bool is_resolved = false;
    for (;;) {
        auto first =
            co_await (connect_to_any(endpoint, is_resolved) || deadline.async_wait(asio::use_awaitable));
        if (first.index() == 1) co_return false;
        Attempt& attempt = std::get<0>(first);
        if (!attempt.socket) co_return attempt.is_refused;
        // The listener may be dying, with its sockets closed one after the other; then this connection ends,
        // too.
        char byte = 0;
        boost::system::error_code ended;
        const auto read =
            co_await (attempt.socket->async_read_some(asio::buffer(&byte, 1),
                                                      asio::redirect_error(asio::use_awaitable, ended)) ||
                      deadline.async_wait(asio::use_awaitable));
        if (read.index() == 1 || !ended) co_return false;
    }
}

}  // namespace base
}  // namespace ddprun
