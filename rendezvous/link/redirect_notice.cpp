#include "rendezvous/link/redirect_notice.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <string>
#include <utility>

#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/secure/sealed_records.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

class RedirectNotice::Impl {
  public:
    Impl(const asio::any_io_executor& executor, std::vector<Endpoint> old_places, const JobMoved& word,
         const std::optional<SecretKey>& key)
        : period_(executor), old_places_(std::move(old_places)), word_(encode_control(word)), key_(key) {}

    static void begin(const std::shared_ptr<Impl>& self) {
        asio::co_spawn(
            self->period_.get_executor(), [self] { return self->call_again_and_again(); }, asio::detached);
    }

    void end() {
        ended_ = true;
        period_.cancel();
    }

  private:
    asio::awaitable<void> call_again_and_again() {
        while (!ended_) {
            for (std::size_t i = 0; i < old_places_.size() && !ended_; ++i) co_await call(old_places_[i]);
            if (ended_) break;
            period_.expires_after(kPeriod);
            boost::system::error_code cancelled;
            co_await period_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        }
    }

    asio::awaitable<void> call(const Endpoint& old_place) {
        try {
            auto socket = co_await async_connect_tcp(old_place, kCallTimeout);
            limit_silence(socket, kCallTimeout);
            const std::string bytes = co_await words_for(socket);
            co_await asio::async_write(socket, asio::buffer(bytes), asio::use_awaitable);
            co_await await_end(socket);
        } catch (const boost::system::system_error&) {
            // Nobody is there, as is usual.
        }
    }

    // The other side may ask whose this connection is, as long as there is one.
    static asio::awaitable<void> await_end(asio::ip::tcp::socket& socket) {
        using namespace asio::experimental::awaitable_operators;
        socket.shutdown(asio::ip::tcp::socket::shutdown_send);
        asio::steady_timer deadline(socket.get_executor(), kCallTimeout);
        char byte = 0;
        boost::system::error_code ended;
        co_await (socket.async_read_some(asio::buffer(&byte, 1),
                                         asio::redirect_error(asio::use_awaitable, ended)) ||
                  deadline.async_wait(asio::use_awaitable));
    }

    asio::awaitable<std::string> words_for(asio::ip::tcp::socket& socket) {
        if (!key_) co_return std::string(kControlMagic) + word_;
        const auto call = co_await call_sealed(socket, SealedPurpose::agent, *key_);
        // The listener there is none of the job's.
        if (!call.keys) co_return std::string();
        co_return SealedRecords(*call.keys).seal(word_);
    }

    asio::steady_timer period_;
    std::vector<Endpoint> old_places_;
    std::string word_;
    std::optional<SecretKey> key_;
    bool ended_ = false;
};

RedirectNotice::RedirectNotice(const asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                               const JobMoved& word, const std::optional<SecretKey>& key)
    : impl_(std::make_shared<Impl>(executor, std::move(old_places), word, key)) {
    Impl::begin(impl_);
}

RedirectNotice::~RedirectNotice() { impl_->end(); }

}  // namespace job
}  // namespace ddprun
