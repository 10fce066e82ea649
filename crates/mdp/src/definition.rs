//! Instrument definitions of every template, in one form.

use tidewire_feed::wire::Name;
use tidewire_sbe::{DecodeError, Message};

use crate::schema::{
    MDInstrumentDefinitionFX63, MDInstrumentDefinitionFixedIncome57,
    MDInstrumentDefinitionFuture54, MDInstrumentDefinitionOption55, MDInstrumentDefinitionRepo58,
    MDInstrumentDefinitionSpread56, SecurityTradingStatus, SecurityUpdateAction,
};

/// What is read of a definition. Prices are in units of 1e-9 in the exchange's display format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentDefinition {
    /// The exchange's number of the instrument.
    pub security_id: i32,
    /// Its name.
    pub symbol: Name,
    /// Added, modified or deleted.
    pub action: SecurityUpdateAction,
    /// Time of that, nanoseconds since the UNIX epoch.
    pub time_ns: u64,
    /// The group whose trading state it shares.
    pub group: [u8; 6],
    /// The product.
    pub asset: [u8; 6],
    /// ISO 4217 code of the price.
    pub currency: [u8; 3],
    /// Smallest price step; `None` if it varies with the price.
    pub tick: Option<i64>,
    /// Factor between the wire's prices and those that traders use, 1 unit = 1e-9.
    pub display_factor: i64,
    /// Smallest quantity of a trade.
    pub trade_volume_min: u32,
    /// Last settlement price.
    pub reference: Option<i64>,
    /// Its trading day, in days since 1970-01-01.
    pub reference_date: Option<u16>,
    /// Trading state; on the definition feed only.
    pub status: Option<SecurityTradingStatus>,
    /// Levels of the real and the implied book; 0 if not given.
    pub depths: (u8, u8),
    /// Number of definitions in the feed's loop, on the definition feed only.
    pub total: Option<u32>,
    /// The channel.
    pub channel: i16,
}

/// Reads the common fields of one definition template.
macro_rules! definition {
    ($template:ident, $message:expr, $tick:expr, $reference:expr, $date:expr) => {{
        let own = $template::decode($message)?;
        let (tick, reference): (fn(&$template<'_>) -> Option<i64>, fn(&_) -> _) =
            ($tick, $reference);
        let date: fn(&$template<'_>) -> Option<u16> = $date;
        let mut depths = (0, 0);
        for feed in &mut own.md_feed_types.iter() {
            let depth = u8::try_from(feed.market_depth()).unwrap_or(0);
            match feed.md_feed_type() {
                b"GBX" => depths.0 = depth,
                b"GBI" => depths.1 = depth,
                _ => {}
            }
        }
        InstrumentDefinition {
            security_id: own.security_id(),
            symbol: name(own.symbol()),
            action: own.security_update_action(),
            time_ns: own.last_update_time(),
            group: *own.security_group(),
            asset: *own.asset(),
            currency: *own.currency(),
            tick: tick(&own).filter(|&tick| tick > 0),
            display_factor: own.display_factor(),
            trade_volume_min: own.min_trade_vol(),
            reference: reference(&own),
            reference_date: date(&own),
            status: own.md_security_trading_status(),
            depths,
            total: own.tot_num_reports(),
            channel: own.appl_id(),
        }
    }};
}

impl InstrumentDefinition {
    /// Decodes a message, if it is a definition of any template.
    ///
    /// # Errors
    /// A length contradicts the template.
    pub fn decode(message: &Message<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match message.template_id() {
            MDInstrumentDefinitionFuture54::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionFuture54,
                    message,
                    |own| Some(own.min_price_increment()),
                    |own: &MDInstrumentDefinitionFuture54<'_>| own.trading_reference_price(),
                    |own| own.trading_reference_date()
                )
            }
            MDInstrumentDefinitionOption55::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionOption55,
                    message,
                    |own| own.min_price_increment(),
                    |own: &MDInstrumentDefinitionOption55<'_>| own.trading_reference_price(),
                    |own| own.trading_reference_date()
                )
            }
            MDInstrumentDefinitionSpread56::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionSpread56,
                    message,
                    |own| own.min_price_increment(),
                    |own: &MDInstrumentDefinitionSpread56<'_>| own.trading_reference_price(),
                    |own| own.trading_reference_date()
                )
            }
            MDInstrumentDefinitionFixedIncome57::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionFixedIncome57,
                    message,
                    |own| own.min_price_increment(),
                    |own: &MDInstrumentDefinitionFixedIncome57<'_>| own.trading_reference_price(),
                    |own| own.trading_reference_date()
                )
            }
            MDInstrumentDefinitionRepo58::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionRepo58,
                    message,
                    |own| Some(own.min_price_increment()),
                    |own: &MDInstrumentDefinitionRepo58<'_>| own.trading_reference_price(),
                    |own| own.trading_reference_date()
                )
            }
            MDInstrumentDefinitionFX63::TEMPLATE_ID => {
                definition!(
                    MDInstrumentDefinitionFX63,
                    message,
                    |own| Some(own.min_price_increment()),
                    |_: &MDInstrumentDefinitionFX63<'_>| None,
                    |_| None
                )
            }
            _ => return Ok(None),
        }))
    }
}

/// Returns a padded text without its padding. Text that is not ASCII is not a name.
fn name(padded: &[u8]) -> Name {
    let end = padded.iter().position(|&byte| byte == 0);
    let text = &padded[..end.unwrap_or(padded.len())];
    match std::str::from_utf8(text) {
        Ok(text) if text.is_ascii() => Name::truncated(text.trim_end_matches(' ')),
        _ => Name::truncated(""),
    }
}
