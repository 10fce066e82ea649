//! `bit`: operations on 32-bit numbers.

use mlua::{Lua, MultiValue, Result, Table};

use super::number;

pub(crate) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    one(lua, &table, "tobit", |bits| bits)?;
    one(lua, &table, "bnot", |bits| !bits)?;
    one(lua, &table, "bswap", u32::swap_bytes)?;
    many(lua, &table, "band", |one, other| one & other)?;
    many(lua, &table, "bor", |one, other| one | other)?;
    many(lua, &table, "bxor", |one, other| one ^ other)?;
    shift(lua, &table, "lshift", |bits, by| bits << by)?;
    shift(lua, &table, "rshift", |bits, by| bits >> by)?;
    shift(lua, &table, "arshift", |bits, by| {
        (bits as i32 >> by) as u32
    })?;
    shift(lua, &table, "rol", u32::rotate_left)?;
    shift(lua, &table, "ror", u32::rotate_right)?;
    table.raw_set("tohex", lua.create_function(tohex)?)?;
    Ok(table)
}

fn one(lua: &Lua, table: &Table, name: &'static str, action: fn(u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        Ok(action(bits(lua, name, &values, 1)?) as i32)
    })?;
    table.raw_set(name, function)
}

fn many(lua: &Lua, table: &Table, name: &'static str, action: fn(u32, u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let first = bits(lua, name, &values, 1)?;
        let mut rest = 2..=values.len();
        let all = rest.try_fold(first, |all, at| {
            Ok(action(all, bits(lua, name, &values, at)?))
        });
        all.map(|all: u32| all as i32)
    })?;
    table.raw_set(name, function)
}

fn shift(lua: &Lua, table: &Table, name: &'static str, action: fn(u32, u32) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let by = bits(lua, name, &values, 2)? & 31;
        Ok(action(bits(lua, name, &values, 1)?, by) as i32)
    })?;
    table.raw_set(name, function)
}

fn tohex(lua: &Lua, values: MultiValue) -> Result<String> {
    let bits_given = bits(lua, "tohex", &values, 1)?;
    let digits = match values.len() {
        ..2 => 8,
        _ => bits(lua, "tohex", &values, 2)? as i32,
    };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = match digits < 0 {
        true => format!("{bits_given:08X}"),
        false => format!("{bits_given:08x}"),
    };
    Ok(text[8 - count..].to_owned())
}

/// Returns a number's low 32 bits, rounded to an integer, halves to even.
fn bits(lua: &Lua, name: &str, values: &MultiValue, position: usize) -> Result<u32> {
    let rounded = number(lua, name, values, position)?.round_ties_even();
    // Beyond 2^51, the bits are no longer exact, but they still wrap.
    Ok((rounded.rem_euclid(4_294_967_296.0)) as u32)
}
