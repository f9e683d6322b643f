#include "rendezvous/secure/job_key.hpp"

#include "tests/rendezvous/secure/bytes_of_hex.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

std::string key_hex(const SecretKey& key) {
    return hex_of_bytes({reinterpret_cast<const char*>(key.data()), SecretKey::kBytes});
}

std::string complaint_about_secret(std::string_view text) {
    const auto parsed = parse_secret(text);
    const auto* wrong = std::get_if<std::string_view>(&parsed);
    return wrong != nullptr ? std::string(*wrong) : "";
}

}  // namespace

TEST_CASE("a job's key is what Python's hashlib makes of the secret and the run id", "[job_key]") {
    CHECK(key_hex(job_key("0123456789abcdefghijklmnop", "run-7")) ==
          "8a78516cb7ff0bcf9ac333e2496c0672fc4a2feabd830429fb0854b03d5a4722");
    CHECK(key_hex(job_key(std::string(100, 'x'), "none")) ==
          "ea3664b3c7c5aeb61a3cb564b540a5bb3ea8fb601b4ac01b043491d026bbfcfc");
    CHECK_FALSE(job_key("0123456789abcdefghijklmnop", "run-8") ==
                job_key("0123456789abcdefghijklmnop", "run-7"));
}

TEST_CASE("a secret is one line of at least 22 characters", "[job_key]") {
    const std::string good = "0123456789abcdef012345";
    CHECK(std::get<std::string>(parse_secret(good)) == good);
    CHECK(std::get<std::string>(parse_secret("  " + good + "\r\n")) == good);
    CHECK(std::get<std::string>(parse_secret("four words and blanks between")) ==
          "four words and blanks between");
    CHECK(complaint_about_secret("") == "is empty");
    CHECK(complaint_about_secret(" \n") == "is empty");
    CHECK(complaint_about_secret(good.substr(1)) == "is shorter than 22 characters");
    CHECK(complaint_about_secret(good + "\n" + good) == "is more than one line of text");
    CHECK(complaint_about_secret(good + std::string(1, '\0') + good) == "is more than one line of text");
    CHECK(complaint_about_secret(std::string(kMaxSecretText + 1, 'x')) == "is longer than 1024 characters");
    CHECK(std::get<std::string>(parse_secret(std::string(kMaxSecretText, 'x'))).size() == kMaxSecretText);
}

TEST_CASE("a secret that was made is one, and no other one", "[job_key]") {
    const std::string text = make_secret_text();
    CHECK(text.size() == 64);
    CHECK(std::get<std::string>(parse_secret(text)) == text);
    CHECK(make_secret_text() != text);
}
