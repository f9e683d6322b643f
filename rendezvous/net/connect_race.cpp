#include "rendezvous/net/connect_race.hpp"

#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <list>
#include <memory>
#include <utility>

namespace ddprun::inline base {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Outlives the coroutine that waits for it until the last of its attempts has heard that it is over.
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

    // Until an attempt ends, or for the head start of one that the next may join.
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

}  // namespace

asio::awaitable<RaceResult> race_to_connect(std::vector<tcp::endpoint> addresses) {
    const auto race = std::make_shared<Race>(co_await asio::this_coro::executor);
    // Also if this coroutine is given up meanwhile.
    const std::shared_ptr<void> end(nullptr, [race](void*) { race->end(); });
    for (std::size_t next = 0; !race->is_won() && (next < addresses.size() || race->is_pending());) {
        if (next < addresses.size()) race->start(addresses[next++]);
        if (race->is_pending()) co_await race->wait(next == addresses.size());
    }
    co_return race->take();
}

}  // namespace ddprun::inline base
