#include "rendezvous/secure/secret.hpp"

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

TEST_CASE("the key of a round's mesh is what Python's hashlib makes of the job's, and another one for each",
          "[job_key]") {
    const SecretKey job = job_key("0123456789abcdefghijklmnop", "run-7");
    CHECK(key_hex(mesh_key(job, "job7-abc", 258)) ==
          "1899ff847a129a0d6be92b1a2dd379279d5688a45d1017c8b8618303163133eb");
    CHECK_FALSE(mesh_key(job, "job7-abc", 2) == mesh_key(job, "job7-abc", 258));
    CHECK_FALSE(mesh_key(job, "job7-abd", 258) == mesh_key(job, "job7-abc", 258));
    CHECK_FALSE(mesh_key(SecretKey(), "job7-abc", 258) == mesh_key(job, "job7-abc", 258));
}

TEST_CASE("a key is 64 hexadecimal digits, and back", "[job_key]") {
    const SecretKey key = SecretKey::fresh();
    CHECK(hex_of(key) == key_hex(key));
    CHECK(parse_secret_key(hex_of(key)) == key);
    const std::string digits(63, 'a');
    for (const std::string& wrong :
         {std::string(), digits, digits + "g", digits + " ", digits + "aa", " " + digits})
        CHECK_FALSE(parse_secret_key(wrong).has_value());
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
    for (const char odd : {'\0', '\t', '\x7f'})
        CHECK(complaint_about_secret(good + odd + good) == "has characters that are no text, a tab perhaps");
    CHECK(complaint_about_secret(std::string(kMaxSecretText + 1, 'x')) == "is longer than 1024 characters");
    CHECK(std::get<std::string>(parse_secret(std::string(kMaxSecretText, 'x'))).size() == kMaxSecretText);
}

TEST_CASE("a secret that was made is one, and no other one", "[job_key]") {
    const std::string text = make_secret_text();
    CHECK(text.size() == 64);
    CHECK(std::get<std::string>(parse_secret(text)) == text);
    CHECK(make_secret_text() != text);
}
