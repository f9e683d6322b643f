#include "rendezvous/etcd/base64.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("base64: the examples of RFC 4648, and every byte") {
    const std::pair<const char*, const char*> rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (const auto& [bytes, text] : rows) {
        CHECK(to_base64(bytes) == text);
        CHECK(from_base64(text) == bytes);
    }
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    for (std::size_t size = 0; size <= all.size(); ++size)
        CHECK(from_base64(to_base64(all.substr(size))) == all.substr(size));
}

TEST_CASE("base64: what nobody writes is refused") {
    for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "=Zg=", "Zg==Zg==", "Zh==", "Zm9=",
                             "Zm9v ", "Zm9\n", "Zm-v", "Zm9vZ"}) {
        INFO(text);
        CHECK(!from_base64(text));
    }
}

}  // namespace ddprun
