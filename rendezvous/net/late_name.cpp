#include "rendezvous/net/late_name.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline base {

namespace asio = boost::asio;
using asio::ip::tcp;

class LateName::Impl : public std::enable_shared_from_this<Impl> {
  public:
    Impl(const asio::any_io_executor& executor, std::string name, std::function<void(bool)> on_known,
         std::chrono::milliseconds pause)
        : resolver_(executor),
          timer_(executor),
          name_(std::move(name)),
          on_known_(std::move(on_known)),
          pause_(pause) {}

    void ask() {
        resolver_.async_resolve(name_, "",
                                [self = shared_from_this()](boost::system::error_code error,
                                                            const tcp::resolver::results_type& found) {
                                    if (!self->on_known_) return;
                                    if (error || found.empty()) return self->ask_later();
                                    std::vector<std::string> addresses;
                                    for (const auto& entry : found)
                                        addresses.push_back(entry.endpoint().address().to_string());
                                    std::exchange(self->on_known_,
                                                  nullptr)(has_own_address(addresses, local_addresses()));
                                });
    }

    void end() {
        on_known_ = nullptr;
        resolver_.cancel();
        timer_.cancel();
    }

  private:
    void ask_later() {
        timer_.expires_after(pause_);
        timer_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
            if (!cancelled && self->on_known_) self->ask();
        });
    }

    tcp::resolver resolver_;
    asio::steady_timer timer_;
    std::string name_;
    std::function<void(bool)> on_known_;
    std::chrono::milliseconds pause_;
};

LateName::LateName(const asio::any_io_executor& executor, const std::string& name,
                   std::function<void(bool)> on_known, std::chrono::milliseconds pause)
    : impl_(std::make_shared<Impl>(executor, name, std::move(on_known), pause)) {
    impl_->ask();
}

LateName::~LateName() { impl_->end(); }

}  // namespace ddprun::inline base
